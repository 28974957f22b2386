-- did_batch: note what was done of that which follows from a batch.
--
-- KEYS[1] batch  HASH    what is true of it, see lib/batch.lua
-- KEYS[2] done   STRING  a bit for each member that has ended
-- KEYS[3] bad    STRING  a bit for each that has not ended well
-- KEYS[4] fails  LIST    the first hundred of these
-- KEYS[5] adds   HASH    what was added
-- ARGV[1] now a callback that was pushed, or 'parent:good' or 'parent:bad', which the parent was told; repeated
--
-- Returns as `apply_batch`.
local call = redis.call
local batch, done, bad, fails, adds = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local state = call('HGET', batch, 'state')
if not state or state == 'void' then return {'gone'} end
-- include batch
call('HDEL', batch, '')
for i = 1, #ARGV do
  local word = string.match(ARGV[i], '^parent:(%l+)$')
  if word then
    call('HSET', batch, 'told', word)
  elseif call('HGET', batch, ARGV[i]) == 'due' then
    -- It may have run, and ended, by now.
    call('HSET', batch, ARGV[i], 'pushed')
  end
end
return tell()
