-- added_batch: note that what had numbers is in, or never will be.
--
-- KEYS[1] batch  HASH    what is true of it, see lib/batch.lua
-- KEYS[2] done   STRING  a bit for each member that has ended
-- KEYS[3] bad    STRING  a bit for each that has not ended well
-- KEYS[4] fails  LIST    the first hundred of these
-- KEYS[5] adds   HASH    what was added: its name -> its first number, how many, and which of these were given up; of a batch its id
-- ARGV[1] name   of what was added, and which part of it
-- ARGV[2] now the first and the last number of those that never will be in; repeated
--
-- Returns as `apply_batch`.
-- Invariant: a number that was given up is a member no more, and is given up once.
local call = redis.call
local batch, done, bad, fails, adds = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local state = call('HGET', batch, 'state')
if not state or state == 'void' then return {'gone'} end
-- include batch
local adding = call('HGET', batch, 'add:' .. ARGV[1])
call('HDEL', batch, 'add:' .. ARGV[1])
if adding then
  local first, count, says = string.match(adding, '^%d+ (%d+) (%d+) (.*)$')
  -- Of a batch its id stands there instead.
  if string.sub(ARGV[1], 1, 6) == 'batch:' and #ARGV == 1 then says = ' ' .. says else says = '' end
  local given_up, which = 0, says
  for i = 2, #ARGV, 2 do
    local from, to = ARGV[i], ARGV[i + 1]
    which = which .. ' ' .. from .. '-' .. to
    for number = tonumber(from), tonumber(to) do
      if call('SETBIT', done, number, 1) == 0 then given_up = given_up + 1 end
    end
  end
  if given_up > 0 then call('HINCRBY', batch, 'total', -given_up) end
  -- Of what is not in at all the name is free.
  if given_up < tonumber(count) then call('HSET', adds, ARGV[1], first .. ' ' .. count .. which) end
end
return tell()
