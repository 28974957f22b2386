-- recount: count what edits left in place of jobs in lists of at most 1,000 together, and set the counter right if asked.
--
-- KEYS[1] jobs  LIST+ envelopes; with `:<list>` behind it those of a list beside it
-- KEYS[2] stat  HASH  counters of the queue
-- ARGV[1] set   '1' to set the counter
--
-- Returns {how many there are or -1 where the lists are too long or too large, how many were counted before}.
-- Invariant: nothing else changes.
local call = redis.call
local jobs, stat = KEYS[1], KEYS[2]
local set = ARGV[1] == '1'

local counted = tonumber(call('HGET', stat, 'husks')) or 0
local lengths, found, bytes = 0, 0, 0
for _, list in ipairs({'', ':highest', ':high', ':low', ':lowest'}) do
  local length = call('LLEN', jobs .. list)
  lengths = lengths + length
  for first = 0, length - 1, 10 do
    if lengths > 1000 or bytes > 1048576 then return {-1, counted} end
    for _, payload in ipairs(call('LRANGE', jobs .. list, first, first + 9)) do
      bytes = bytes + #payload
      if payload == '-' then found = found + 1 end
    end
  end
end
if set and found ~= counted then call('HSET', stat, 'husks', found) end
return {found, counted}
