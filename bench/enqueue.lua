-- wrk: a single enqueue with a payload of about 100 bytes.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"queue":"bench","payload":{"text":"' ..
	string.rep("abcdefghij", 9) .. '"}}'

-- Anything but 201 would make the figure a lie.
function response(status)
	if status ~= 201 then
		bad = (bad or 0) + 1
	end
end

local threads = {}

function setup(thread)
	table.insert(threads, thread)
end

function done()
	local n = 0
	for _, thread in ipairs(threads) do
		n = n + (thread:get("bad") or 0)
	end
	io.write("Refused: " .. n .. "\n")
end
