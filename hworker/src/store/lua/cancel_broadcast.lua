-- cancel_broadcast: end a job that each worker runs: no more of them begin it or try it again, and those that run it are told to end it.
--
-- KEYS[1] jobs  LIST+ waiting envelopes; behind `:broadcast` such jobs, see lib/broadcast.lua
-- ARGV[1] id
-- ARGV[2] of_worker   what the keys of workers' leases begin with
-- ARGV[3] of_record   what the keys of their records begin with
--
-- Returns {'ok', how many workers were told}, or {'missing'} where there is none.
local call = redis.call
local jobs, progress = KEYS[1], ''
local id, of_worker, of_record = ARGV[1], ARGV[2], ARGV[3]

-- include broadcast
-- include cancel
local of_id = broadcasts .. ':' .. id
if call('HDEL', broadcasts, id) == 0 then return {'missing'} end
local claims, told = call('HGETALL', of_id), 0
call('DEL', of_id)
for i = 1, #claims, 2 do
  local key, lease = claims[i], string.match(claims[i + 1], '^r (.*)$')
  if lease and string.sub(key, 1, #of_worker) == of_worker then
    if order_to_cancel(key, of_record .. string.sub(key, #of_worker + 1), lease) then told = told + 1 end
  end
end
return {'ok', told}
