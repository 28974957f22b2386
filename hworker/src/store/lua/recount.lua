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
-- include lists
local lengths, found, bytes = 0, 0, 0
-- Whether there was time for it.
local function look_through(list)
  local by_id = list ~= '' and read(list) and read(list).by_id
  local length = call('LLEN', (list == '' and jobs or jobs .. ':' .. list))
  lengths = lengths + math.max(length, 1)
  for first = 0, length - 1, 10 do
    if lengths > 1000 or bytes > 1048576 then return false end
    for _, payload in ipairs(call('LRANGE', (list == '' and jobs or jobs .. ':' .. list), first, first + 9)) do
      bytes = bytes + #payload
      if by_id then
        local state, of_list = standing(string.match(call('HGET', ids, payload) or '', '^>(.*)$') or payload)
        if state ~= 'w' or of_list ~= list then found = found + 1 end
      elseif payload == '-' then
        found = found + 1
      end
    end
  end
  return lengths <= 1000
end

if not look_through('') then return {-1, counted} end
for _, group in ipairs(call('ZRANGE', lists, 0, 199)) do
  local of = read(group)
  for _, key in ipairs(of and of.key and call('ZRANGE', jobs .. ':keys:' .. group, 0, 1000) or {''}) do
    if not look_through(group .. key) then return {-1, counted} end
  end
end
if set and found ~= counted then call('HSET', stat, 'husks', found) end
return {found, counted}
