-- wrk: a single enqueue with a payload of about 100 bytes.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"queue":"bench","payload":{"text":"' ..
	string.rep("abcdefghij", 9) .. '"}}'

-- Counted by wrk itself: a function called for each answer costs it 2 us that
-- nginx beside it does not pay.
function done(summary)
	io.write("Refused: " .. summary.errors.status .. "\n")
end
