-- What all scenarios share: options, counters, and the one line of JSON that wrk.py reads.
--
-- wrk runs one Lua state per thread and tells a script neither the connection of a request nor of an answer.

local common = {}

-- Globals on purpose: `done` runs in a state of its own and reads them from every thread by name.
messages = 0 -- messages that were pushed, popped or acked
failed = 0 -- answers that are not 2xx, or that say that an item failed
dry = 0 -- pops that found nothing

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

-- Options come as key=value behind `--` on wrk's command line.
function common.options(args)
  local options = {}
  for _, text in ipairs(args) do
    local key, value = text:match("^([%w_]+)=(.*)$")
    if key then
      options[key] = tonumber(value) or value
    end
  end
  return options
end

-- How often a plain text stands in an answer. Much cheaper than gsub, which copies the answer.
function common.count(body, text)
  local found, at = 0, 1
  while true do
    local first, last = string.find(body, text, at, true)
    if not first then
      return found
    end
    found, at = found + 1, last + 1
  end
end

-- Count what the answer to a push says.
function common.note_push(status, body)
  if status ~= 201 or string.find(body, 'failed"', 1, true) then
    failed = failed + 1
  end
  messages = messages + common.count(body, 'queued"')
end

-- The requests of a list, one after the other, for ever.
function common.in_turn(list)
  local at = 0
  return function()
    at = at % #list + 1
    return list[at]
  end
end

local function total(name)
  local sum = 0
  for _, thread in ipairs(threads) do
    sum = sum + thread:get(name)
  end
  return sum
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"messages":%d,"failed":%d,"dry":%d,"broken":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    total("messages"), total("failed"), total("dry"),
    errors.connect + errors.read + errors.write + errors.timeout
  ))
end

return common
