-- did_batch: note that callbacks of a batch were pushed.
--
-- KEYS[1] batch  HASH    what is true of it, see lib/batch.lua
-- KEYS[2] done   STRING  a bit for each member that has ended
-- KEYS[3] bad    STRING  a bit for each that has not ended well
-- KEYS[4] fails  LIST    the first hundred of these
-- ARGV[1] now callback; repeated
--
-- Returns as `apply_batch`.
local call = redis.call
local batch, done, bad, fails = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

if call('EXISTS', batch) == 0 then return {'gone'} end
-- include batch
call('HDEL', batch, '')
for i = 1, #ARGV do
  -- It may have run, and ended, by now.
  if call('HGET', batch, ARGV[i]) == 'due' then call('HSET', batch, ARGV[i], 'pushed') end
end
return tell()
