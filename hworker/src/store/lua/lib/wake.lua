-- wake: ring for the process that keeps the timer, where a job is due before all others.
-- Needs call, bell, due, and first: the due time of the first other one, or nil.
if (not first or due < tonumber(first)) and call('LLEN', bell) == 0 then call('LPUSH', bell, '1') end
