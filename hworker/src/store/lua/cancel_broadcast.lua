-- cancel_broadcast: end a job that each worker runs: no more of them begin it or try it again.
--
-- KEYS[1] jobs  LIST+ waiting envelopes; behind `:broadcast` such jobs, see lib/broadcast.lua
-- ARGV[1] id
--
-- Returns {'ok'} and of each worker that runs it the key of its leases and the lease, or {'missing'} where there is none.
local call = redis.call
local jobs = KEYS[1]
local broadcasts = jobs .. ':broadcast'
local id = ARGV[1]

local of_id = jobs .. ':broadcast:' .. id
if call('HDEL', broadcasts, id) == 0 then return {'missing'} end
local claims, reply = call('HGETALL', of_id), {'ok'}
call('DEL', of_id)
for i = 1, #claims, 2 do
  local lease = claims[i] ~= '' and string.match(claims[i + 1], '^r (.*)$')
  if lease then
    reply[#reply + 1] = claims[i]
    reply[#reply + 1] = lease
  end
end
return reply
