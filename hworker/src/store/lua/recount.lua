-- recount: count what edits left in place of jobs in a list of at most 1,000, and set the counter right if asked.
--
-- KEYS[1] jobs  LIST  envelopes
-- KEYS[2] stat  HASH  counters of the queue
-- ARGV[1] set   '1' to set the counter
--
-- Returns {how many there are or -1 where the list is too long or too large, how many were counted before}.
-- Invariant: nothing else changes.
local call = redis.call
local jobs, stat = KEYS[1], KEYS[2]
local set = ARGV[1] == '1'

local counted = tonumber(call('HGET', stat, 'husks')) or 0
local length, found, bytes = call('LLEN', jobs), 0, 0
for first = 0, length - 1, 10 do
  if length > 1000 or bytes > 1048576 then return {-1, counted} end
  for _, payload in ipairs(call('LRANGE', jobs, first, first + 9)) do
    bytes = bytes + #payload
    if payload == '-' then found = found + 1 end
  end
end
if set and found ~= counted then call('HSET', stat, 'husks', found) end
return {found, counted}
