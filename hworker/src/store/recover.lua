-- recover: declare a worker dead and give back what it held.
--
-- KEYS[1] workers   ZSET  worker -> last heartbeat in ms
-- KEYS[2] record    HASH  the dead worker's record
-- KEYS[3] progress  HASH  its leases -> envelopes
-- KEYS[4] inbox     LIST  what the server handed to it while it waited, oldest at the right
-- KEYS[5] jobs      LIST  envelopes; the right end is taken next
-- KEYS[6] stat      HASH  counters of the queue
-- KEYS[7] day       HASH  the same of one day
-- ARGV[1] worker    its id
-- ARGV[2] seen      the heartbeat that the monitor saw, as the sorted set has it
-- ARGV[3] day_ttl   seconds that the counters of a day are kept
-- ARGV[4] most      bytes; what is larger than that goes back from the inbox as it is. Empty: the inbox is left as it is
-- ARGV[5] handed    what an earlier call said was in the inbox, or nothing
-- ARGV[6] instead   what goes back for it; empty where it goes as it is
-- ARGV[7] now lease, envelope; repeated, the youngest lease first
--
-- Returns {'ok', how many were given back, how many leases are left, 1 if this call declared it dead or 0, how many are in the
-- inbox}, and behind that, unless the inbox is left as it is, the youngest there: its body may have begun, so who recovers it says so
-- in what goes back; {'alive'} when the worker was heard of since.
-- Invariant: from the mark on, every reserve and heartbeat under that id is void; each lease is given back once, and what is in the
-- inbox too.
local workers, record, progress, inbox = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local jobs, stat, day = KEYS[5], KEYS[6], KEYS[7]
local worker, seen, day_ttl = ARGV[1], ARGV[2], ARGV[3]
local most, handed, instead = tonumber(ARGV[4]), ARGV[5], ARGV[6]

if redis.call('HEXISTS', record, 'dead') == 0 then
  if redis.call('ZSCORE', workers, worker) ~= seen then return {'alive'} end
end

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
redis.call('LLEN', inbox)
redis.call('LLEN', jobs)

-- A removal first: a full server lets a script go on once it has written.
redis.call('HDEL', progress, '')
local declared = redis.call('HSETNX', record, 'dead', redis.call('TIME')[1])
-- Nobody asks who the dead were.
redis.call('HDEL', record, 'name', 'host', 'pid', 'version', 'concurrency', 'queues')

local given = 0
local youngest = most and redis.call('LINDEX', inbox, 0)
for _ = 1, 1000 do
  local known = youngest and youngest == handed
  if not youngest or #youngest <= most and not known then break end
  redis.call('LMOVE', inbox, jobs, 'LEFT', 'RIGHT')
  if known then
    if instead ~= '' then
      redis.call('RPOP', jobs)
      redis.call('RPUSH', jobs, instead)
    end
    -- An equal one behind it is another job.
    handed = nil
  end
  given = given + 1
  youngest = redis.call('LINDEX', inbox, 0)
end
for i = 7, #ARGV, 2 do
  if redis.call('HDEL', progress, ARGV[i]) == 1 then
    redis.call('RPUSH', jobs, ARGV[i + 1])
    given = given + 1
  end
end
if given > 0 then
  -- A figure holds up no job.
  redis.pcall('HINCRBY', stat, 'recovered', given)
  redis.pcall('HINCRBY', day, 'recovered', given)
  redis.call('EXPIRE', day, day_ttl)
end
return {'ok', given, redis.call('HLEN', progress), declared, redis.call('LLEN', inbox), youngest or nil}
