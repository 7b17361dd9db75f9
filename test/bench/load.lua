-- Sends the raw requests of the file LOAD_REQUESTS, which are separated by NUL, one after the other, and prints the
-- result as a line of JSON.

local requests = {}
for text in io.open(os.getenv("LOAD_REQUESTS"), "rb"):read("*a"):gmatch("%Z+") do
  requests[#requests + 1] = text
end

local at = 0
function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"microseconds":%d,"refused":%d,"broken":%d,"p50Us":%d,"p99Us":%d}\n',
    summary.requests, summary.duration, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
