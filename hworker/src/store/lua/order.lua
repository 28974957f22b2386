-- order: write an order into the record of a live worker, which learns of it with its next heartbeat.
--
-- KEYS[1] record  HASH  the worker's record
-- ARGV[1] field   'quiet', 'slots' or 'stop'
-- ARGV[2] value   '' takes the order back
--
-- Returns 1, or 0 where no such worker lives.
-- Invariant: no record is made for a worker that is not known.
local call = redis.call
local record = KEYS[1]
local field, value = ARGV[1], ARGV[2]

local known = call('HMGET', record, 'session', 'dead')
if not known[1] or known[2] then return 0 end
call('HDEL', record, field)
if value ~= '' then call('HSET', record, field, value) end
return 1
