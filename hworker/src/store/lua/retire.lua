-- retire: a worker's last call: give the inbox back, leave the timer, and mark the entry dead.
--
-- KEYS[1] record    HASH    the worker's record
-- KEYS[2] progress  HASH    its leases -> envelopes
-- KEYS[3] inbox     LIST    what the server handed to it while it waited, oldest at the right
-- KEYS[4] jobs      LIST+   envelopes; the right end is taken next
-- KEYS[5] timer     STRING  the worker that keeps the queue's timer
-- KEYS[6] workers   ZSET    worker -> last heartbeat in ms
-- ARGV[1] worker  its id
--
-- Returns how many leases are left, for the monitor of another worker to recover.
-- Invariant: there is an entry afterwards, also where the server has forgotten the worker with all else (`FLUSHALL`, a restart
-- without data), so that what a half-open connection captures later is found.
local call = redis.call
local record, progress, inbox, jobs, timer = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local workers = KEYS[6]
local worker = ARGV[1]

-- include lists
-- include broadcast
call('HDEL', progress, '')
leave_broadcasts()
if call('GET', timer) == worker then call('DEL', timer) end
for _ = 1, 1000 do
  local handed = call('LPOP', inbox)
  if not handed then break end
  if is_ticket(handed) then leave_ticket() else call('RPUSH', jobs, handed) end
end
-- include clock
call('HSETNX', record, 'dead', time[1])
-- Nobody asks who the dead were.
call('HDEL', record, 'name', 'host', 'pid', 'version', 'concurrency', 'queues')
call('ZADD', workers, 'NX', now, worker)
return call('HLEN', progress)
