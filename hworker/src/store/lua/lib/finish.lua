-- finish: a job that is known by its id is no more: its key is free, or the job that follows it has it.
-- Needs call, now, lib/lists, and lib/timers. Makes hand_on, unlock and finish.

-- A key is free: the job that follows holds it from now on, and waits until it is due.
local function hand_on(key, follower)
  local state, list, _, rest = standing(follower)
  if state ~= 'f' then
    call('HDEL', unique, key)
    return
  end
  local due, envelope = string.match(rest, '^(%d*)\n(.*)$')
  call('HSET', unique, key, follower .. '####')
  if tonumber(due) and tonumber(due) > now then
    set_timer('#' .. follower, tonumber(due), 'CH')
  else
    push('LPUSH', list .. '#' .. follower, envelope)
  end
end

-- The job has started, and holds its key no more.
local function unlock(key, id)
  local holder, follower = string.match(call('HGET', unique, key) or '', '^([^#]*)#.*#([^#]*)$')
  if holder == id then hand_on(key, follower) end
end

-- A run of a cron entry has ended: what its line says becomes this, see lib/cron.lua.
local function end_run(id, became)
  local entry, due = string.match(id, '^cron:(.+):(%d+)$')
  local runs = entry and redis.pcall('HGET', jobs .. ':cron', 'runs:' .. entry)
  if type(runs) ~= 'string' then return end
  local before, after = string.match('\n' .. runs, '^(.*\n' .. due .. ' )%l+(.*)$')
  if before then call('HSET', jobs .. ':cron', 'runs:' .. entry, string.sub(before, 2) .. became .. after) end
end

-- `became`: how it ended. `under`: where it ran, if it is known there that it may run elsewhere now. `by_hand`: somebody removed it, so what is
-- held for a time is free too.
local function finish(name, became, under, by_hand)
  local of = read(name)
  if not (of and of.id) then return end
  local stands, _, held_by, where = standing(of.id)
  if not stands or under and (stands ~= 'r' or where ~= under) then return end
  local by, key = string.match(held_by, '^(%l)(.+)$')
  call('HDEL', ids, of.id)
  end_run(of.id, became)
  if not key then return end
  local holder, open_at, follower = string.match(call('HGET', unique, key) or '', '^([^#]*)#[^#]*#(%d*)#%d*#(.*)$')
  if holder ~= of.id then return end
  local is_followed = standing(follower) == 'f'
  if is_followed or by ~= 'p' or by_hand or (tonumber(open_at) or 0) <= now then hand_on(key, follower) end
end
