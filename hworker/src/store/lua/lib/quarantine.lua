-- quarantine: put a payload among the broken ones, or count once more one that is there.
-- Needs call, now, broken, payload, reason, and old: its entry, or false.
local times = old and tonumber(string.match(old, '^%d+')) or 0
call('HSET', broken, payload, string.format('%d %d ', times + 1, now) .. reason)
