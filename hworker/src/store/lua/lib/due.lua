-- due: puts jobs into their lists that stand as they do among the scheduled ones.
-- Needs call, jobs, token_key, lib/lists. Makes look_at_due and put_due.
local is_marked = false

-- Before they are taken: a key that somebody made another type of is an error here, and not half-way.
local function look_at_due(members)
  for _, member in ipairs(members) do
    local name = string.match(member, '^:%d*([^\n]*)\n')
    if name and name ~= '' and read(name) then
      look_at_list(name)
      call('GET', token_key)
    end
  end
end

-- Gives how many bytes they have beside themselves.
local function put_due(members)
  local plain, more = {}, 0
  for _, member in ipairs(members) do
    local at_once, name, from = string.match(member, '^:(%d*)([^\n]*)\n()')
    local of = name and name ~= '' and read(name)
    if of then
      if not is_marked then
        -- include mark
        is_marked = true
      end
      note_arguments(name, at_once)
      local state, envelope = 's', string.sub(member, from)
      if of.id then
        state, _, _, envelope = standing(of.id)
        more = more + #(envelope or '')
      end
      if state == 's' then push('LPUSH', name, envelope) end
    else
      plain[#plain + 1] = member
    end
  end
  if plain[1] then call('LPUSH', jobs, unpack(plain)) end
  return more
end
