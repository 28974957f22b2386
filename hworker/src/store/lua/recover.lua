-- recover: declare a worker dead and give back what it held.
--
-- KEYS[1] workers   ZSET  worker -> last heartbeat in ms
-- KEYS[2] record    HASH  the dead worker's record
-- KEYS[3] progress  HASH  its leases -> envelopes
-- KEYS[4] inbox     LIST  what the server handed to it while it waited, oldest at the right
-- KEYS[5] jobs      LIST+ envelopes; the right end is taken next; with `:<list>` behind it those of a list beside it
-- KEYS[6] stat      HASH  counters of the queue
-- KEYS[7] day       HASH  the same of one day
-- ARGV[1] worker    its id
-- ARGV[2] seen      the heartbeat that the monitor saw, as the sorted set has it
-- ARGV[3] day_ttl   seconds that the counters of a day are kept
-- ARGV[4] now lease, envelope; repeated, the youngest lease first
--
-- Returns {'ok', how many were given back, how many leases are left, 1 if this call declared it dead or 0, how many are in the
-- inbox, and of this call alone its name, host, pid and version}; {'alive'} when the worker was heard of since.
-- Invariant: from the mark on, every reserve and heartbeat under that id is void; each lease is given back once, and what is in the
-- inbox too.
local call = redis.call
local workers, record, progress, inbox = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local jobs, stat, day = KEYS[5], KEYS[6], KEYS[7]
local worker, seen, day_ttl = ARGV[1], ARGV[2], ARGV[3]

if call('HEXISTS', record, 'dead') == 0 then
  if call('ZSCORE', workers, worker) ~= seen then return {'alive'} end
end

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
call('LLEN', inbox)
call('LLEN', jobs)
-- include lists
local ordered = call('HGET', record, 'cancel')
-- include ordered
-- include broadcast
for i = 4, #ARGV, 2 do look_at_list(goes_to(ARGV[i])) end

-- A removal first: a full server lets a script go on once it has written.
call('HDEL', progress, '')
local declared = call('HSETNX', record, 'dead', call('TIME')[1])
-- Who it was is told once, and written down elsewhere.
local who = declared == 1 and call('HMGET', record, 'name', 'host', 'pid', 'version') or {}
call('HDEL', record, 'name', 'host', 'pid', 'version', 'concurrency', 'queues')

leave_broadcasts()
local given = 0
-- Younger than what has a lease, so it is behind that.
for _ = 1, 1000 do
  local handed = call('LPOP', inbox)
  if not handed then break end
  -- It would have told of lists that have jobs.
  if is_ticket(handed) then
    leave_ticket()
  else
    call('RPUSH', jobs, handed)
    given = given + 1
  end
end
for i = 4, #ARGV, 2 do
  if call('HDEL', progress, ARGV[i]) == 1 then
    free(ARGV[i], progress)
    if broadcast_of(ARGV[i]) and not is_ordered(ARGV[i]) then
      -- With this death, so that one which ends its workers does not end them all.
      note_broadcast(ARGV[i], nil, ARGV[i + 1])
    else
      push('RPUSH', goes_to(ARGV[i]), ARGV[i + 1])
      if broadcast_of(ARGV[i]) then note_broadcast(ARGV[i], 'd') end
    end
    given = given + 1
  end
end
tell_of_room()
local counter, n = 'recovered', given
-- include count
local answer = {'ok', given, call('HLEN', progress), declared, call('LLEN', inbox)}
for i = 1, 4 do answer[5 + i] = who[i] or '' end
return answer
