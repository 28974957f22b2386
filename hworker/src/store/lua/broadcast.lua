-- broadcast: take in a job that each worker runs once, or each of so many.
--
-- KEYS[1] jobs  LIST+ waiting envelopes; behind `:broadcast` such jobs, see lib/broadcast.lua
-- ARGV[1] id
-- ARGV[2] most      by how many workers, 0 for all
-- ARGV[3] lasts     ms for which workers begin it
-- ARGV[4] at_most   how many such jobs the queue may have
-- ARGV[5] job       the name of its type
-- ARGV[6] envelope
--
-- Returns 'ok', or 'full' where the queue has as many as it may.
-- Invariant: what is sent twice is there once, and no worker runs it again.
local call = redis.call
local jobs = KEYS[1]
local broadcasts = jobs .. ':broadcast'
local id, most, lasts, at_most, job, envelope = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]

-- include clock
local all = call('HGETALL', broadcasts)
local live, over = 0, {}
for i = 1, #all, 2 do
  local expires_at = tonumber(string.match(all[i + 1], '^%d+ (%d+) ')) or 0
  if expires_at + 60000 <= now then
    over[#over + 1] = all[i]
  elseif expires_at > now and all[i] ~= id then
    live = live + 1
  end
end
if live >= at_most then return 'full' end
local of_id = jobs .. ':broadcast:' .. id
call('HSET', of_id, '', envelope)
call('PEXPIRE', of_id, lasts + 60000)
call('HSET', broadcasts, id, string.format('%s %.0f %s', most, now + lasts, job))
if call('PTTL', broadcasts) < lasts + 60000 then call('PEXPIRE', broadcasts, lasts + 60000) end
if over[1] then call('HDEL', broadcasts, unpack(over)) end
return 'ok'
