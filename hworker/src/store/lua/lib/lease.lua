-- lease: lease envelopes of a list, in a queue that has more than its plain one.
-- Needs call, jobs, progress, lists, limits and finish, broken, parked, stat, max_payload, broken_limit, now, quarantine, token,
-- has_queue_limit, and what it counts: want, slots, in_vain, quarantined, beyond, held_up, bytes, largest, filled, taken, reply, holds, sets_aside. Makes lease and take.

-- Ids that call for nothing any more, of which a call takes no more than a thousand out.
local dropped = 0

local function can_set_aside()
  if sets_aside == nil then
    sets_aside = type(redis.pcall('HLEN', broken)) == 'number' and type(redis.pcall('ZCARD', parked)) == 'number'
  end
  return sets_aside
end

-- What an id in a list calls for: an envelope, '' where it waits there no more, its id, and its key.
local function called_for(list, id)
  local instead = string.match(call('HGET', ids, id) or '', '^>(.*)$')
  if instead then
    call('HDEL', ids, id)
    id = instead
  end
  local state, of_list, key, envelope = standing(id)
  return state == 'w' and of_list == list and envelope or '', id, key
end

-- Leases envelopes that were taken from the right end of a list, the oldest first; gives how many. What is beyond the bytes, or can
-- neither be leased nor set aside, goes back there.
local function lease(list, envelopes, bounded)
  local leased, suffix = 0, (list ~= '' or has_queue_limit) and '.' .. list or ''
  local of_list = list ~= '' and read(list)
  local limits, by_id = of_list and of_list.limits or {}, of_list and of_list.by_id
  local name, key = suffix, nil
  for i, envelope in ipairs(envelopes) do
    if by_id then
      -- An envelope instead of the id, and the id of the one that waits there instead of that which it had.
      envelope, envelopes[i], key = called_for(list, envelope)
      name = suffix .. '#' .. envelopes[i]
    end
    local too_large = #envelope > max_payload
    if by_id and envelope == '' then
      -- It waits there no more.
      dropped = dropped + 1
      if (tonumber(redis.pcall('HGET', stat, 'husks')) or 0) > 0 then redis.pcall('HINCRBY', stat, 'husks', -1) end
    elseif is_ticket(envelope) then
      -- It is no job. A worker that was handed one has a slot for the job of which it tells.
      if not bounded then want, slots = want + 1, slots + 1 end
      in_vain = math.max(in_vain, tonumber(string.sub(envelope, 2)) or 0)
    elseif too_large and can_set_aside() then
      quarantined = quarantined + 1
      if quarantine(envelope, broken, broken_limit, now) then
        redis.pcall('HINCRBY', stat, 'broken', 1)
        finish(string.sub(name, 2), 'broken')
      else
        beyond = beyond or {}
        beyond[#beyond + 1] = by_id and later(string.sub(name, 2), envelope) or envelope
        if by_id then stand(read(string.sub(name, 2)), 'p', envelope) end
      end
    elseif too_large or bytes <= 0 and bounded then
      held_up, bytes = too_large, 0
      for j = #envelopes, i, -1 do push('RPUSH', list, envelopes[j]) end
      break
    else
      token = token + 1
      leased = leased + 1
      local number = string.format('%.0f', token)
      taken[filled + 1], taken[filled + 2] = number .. name, envelope
      filled = filled + 2
      reply[#reply + 1], reply[#reply + 2] = number .. name, envelope
      if by_id then
        if string.sub(key, 1, 1) == 's' then
          unlock(string.sub(key, 2), envelopes[i])
          key = ''
        end
        stand(read(string.sub(name, 2)), 'r', (progress or '') .. ' ' .. number .. name, key)
      end
      for _, limit in ipairs(limits) do holds[#holds + 1] = room_of(limit).holder .. ' ' .. number end
      if has_queue_limit then holds[#holds + 1] = '* ' .. number end
    end
    bytes, largest = bytes - #envelope, math.max(largest, #envelope)
  end
  for _, limit in ipairs(limits) do took(limit, leased) end
  return leased
end

-- Where somebody made another type of a key, no job is taken that is known by its id: it would be lost half-way.
local knows_ids
local function can_take(list)
  if list == '' or not read(list).by_id then return true end
  if knows_ids == nil then
    knows_ids = type(redis.pcall('HLEN', ids)) == 'number' and type(redis.pcall('HLEN', unique)) == 'number'
  end
  return knows_ids
end

local function take(list, most)
  if not can_take(list) then return 0 end
  local leased, at_once = 0, 1
  while leased < most and bytes > 0 and quarantined < 100 and dropped < 1000 and at_once > 0 do
    local some = call('RPOP', (list == '' and jobs or jobs .. ':' .. list), math.min(most - leased, at_once))
    if not some then break end
    leased = leased + lease(list, some, true)
    at_once = math.min(at_once * 2, 32, math.floor(bytes / largest))
  end
  return leased
end
