-- lock: take, keep or give back a lock.
--
-- KEYS[1] lock   STRING  the token of its holder; expires
-- ARGV[1] token  of who asks
-- ARGV[2] ms     for so long from now; 0 gives it back
-- ARGV[3] what   'take' where nobody may have it, 'keep' where it is held
--
-- Returns 1 where the lock is, or was, that of who asks; else 0.
-- Invariant: nobody but its holder keeps it or gives it back.
local call = redis.call
local lock = KEYS[1]
local token, ms, what = ARGV[1], ARGV[2], ARGV[3]

local holder = call('GET', lock)
if holder == token and ms == '0' then
  call('DEL', lock)
  return 1
end
if holder == token or not holder and what == 'take' then
  call('SET', lock, token, 'PX', ms)
  return 1
end
return 0
