-- audit: write an entry to the audit, of which ten thousand are kept.
--
-- KEYS[1] audit  STREAM  what people did by hand
-- ARGV[1] then field, value; repeated
--
-- Returns the id of the entry.
-- Invariant: a full server takes it too, as what it does is begun by a removal.
local call = redis.call
local audit = KEYS[1]

call('XTRIM', audit, 'MAXLEN', '~', 10000)
return call('XADD', audit, '*', unpack(ARGV))
