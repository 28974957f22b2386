-- gate: wake all workers that wait until the queue gives jobs again, by a ticket each.
-- Needs call, jobs, workers, now. Makes nothing.
local live = math.min(call('ZCOUNT', workers, now - 60000, '+inf'), 1000)
if live > 0 then
  -- Not for those who do not wait, nor for those who came before.
  call('DEL', jobs .. ':gate')
  for _ = 1, live do call('RPUSH', jobs .. ':gate', '!') end
  call('PEXPIRE', jobs .. ':gate', 60000)
end
