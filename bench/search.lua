-- POST /api/v1/jobs/search without pause, several searches in turn.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"

local bodies = {
  '{"queue": "q-3", "state": ["pending"]}',
  '{"queue": "json", "payload_jq": ".n == 77777", "limit": 10}',
  '{"state": ["dead"], "has_errors": true, "error_contains": "smtp"}',
  '{"text": "template welcome", "limit": 20}',
  '{"queue": "q-5", "sort": "attempt", "limit": 10}',
}
local next = 0

function request()
  next = next % #bodies + 1
  return wrk.format(nil, "/api/v1/jobs/search", nil, bodies[next])
end
