-- create_batch: begin a batch, to which members are added until it is sealed.
--
-- KEYS[1] batch  HASH  what is true of it, see lib/batch.lua
-- ARGV[1] name   what it is called
-- ARGV[2] now callback, queue, list, how many of its key run at once or '', envelope; repeated
--
-- Returns 'ok', or 'exists'.
local call = redis.call
local batch = KEYS[1]

if call('EXISTS', batch) == 1 then return 'exists' end
local time = call('TIME')
call('HSET', batch, 'state', 'open', 'name', ARGV[1], 'at', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
for i = 2, #ARGV, 5 do
  local name = ARGV[i]
  call('HSET', batch, name, 'waits', 'queue:' .. name, ARGV[i + 1], 'list:' .. name, ARGV[i + 2], 'at_once:' .. name, ARGV[i + 3],
    'job:' .. name, ARGV[i + 4])
end
call('EXPIRE', batch, 7776000)
return 'ok'
