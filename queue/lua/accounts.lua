-- accounts: what is seldom done with accounts and tickets. It stands before order.lua, which
-- says how they are kept, and is run when one of its functions is called.

-- of_users is the group of the users of a key's account.
function line.of_users(a)
  if not a.group_of_users then
    local name = #a.purse .. ' ' .. a.purse
    a.group_of_users = {
      of = a, class = a.class, urgency = a.urgency, ready = 'R' .. name, hungry = 'H' .. name, idle = 'I' .. name,
      field = 'u:' .. name .. ' ', list = {},
    }
  end
  return a.group_of_users
end

-- entries are where an account is filed in INDEX, by what was noted.
function line.entries(a)
  local g = a.group
  if a.was_filed == 'r' then
    local since = line.digits(a.was_since)
    return {g.ready .. line.digits(a.was_used) .. since .. a.name, g.hungry .. since .. a.name}
  elseif a.was_filed == 'i' then
    return {g.idle .. line.digits(a.was_used) .. a.name}
  end
  return {}
end

-- filed lists what INDEX has behind a prefix, up to many.
function line.filed(prefix, below, many)
  return call('ZRANGEBYLEX', INDEX, '[' .. prefix, '(' .. below, 'LIMIT', 0, many)
end

-- first is the first entry behind a prefix whose account is not loaded, its name being
-- behind so many letters.
function line.first(prefix, group, name)
  for _, entry in ipairs(line.filed(prefix, prefix .. ':', met + 1)) do
    local who = string.sub(entry, name + 1)
    local g = group or line.group_of(who)
    if loaded[g.field .. who] == nil then return entry, who, g end
  end
end

-- load_first reads the accounts of which one is the first that is not loaded.
function line.load_first(g, cutoff)
  local ready, hungry = g and g.ready or 'r', g and g.hungry or 'h'
  local _, name, group = line.first(ready, g, #ready + (g and 32 or 33))
  local entry, starving, its = line.first(hungry, g, #hungry + 16)
  if name then line.get(group, name) end
  if entry and tonumber(string.sub(entry, #hungry + 1, #hungry + 16)) <= cutoff then line.get(its, starving) end
end

-- parse reads a ticket.
function line.parse(id, record)
  local owner, class, came, cost, prefer, user, key = match(record, '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S*) (.*)$')
  return {
    id = id, owner = owner, class = class, arrival = tonumber(came), cost = tonumber(cost), prefer = tonumber(prefer), user = user, key = key,
    purse = class .. ' ' .. key,
  }
end

-- forget takes an account off the books.
function line.forget(a)
  for _, entry in ipairs(line.entries(a)) do unfiled[#unfiled + 1] = entry end
  if a.record then gone[#gone + 1] = a.field end
  if a.filed == 'i' and not a.within then books.idle = books.idle - 1 end
  a.forgotten, loaded[a.field] = true, false
  for _, list in ipairs({a.group.list, everyone}) do
    for i, other in ipairs(list) do
      if other == a then table.remove(list, i) break end
    end
  end
end

-- disband forgets the users of a key.
function line.disband(a)
  local g = line.of_users(a)
  line.load_running(g)
  while #g.list > 0 do line.forget(g.list[1]) end
  for _, entry in ipairs(line.filed(g.idle, g.idle .. ':', -1)) do
    unfiled[#unfiled + 1] = entry
    gone[#gone + 1] = g.field .. string.sub(entry, #g.idle + 17)
  end
  a.apart, a.claimants, a.group_of_users = false, 0, nil
end

-- least is the least counter of the active members of a group.
function line.least(g)
  local low = math.huge -- nobody is active: all start anew
  for _, a in ipairs(g.list) do
    if line.active(a) then low = math.min(low, line.level(a)) end
  end
  if line.hidden(g.of and g) > 0 then
    local entry = line.first(g.ready, g, #g.ready + 32)
    if entry then low = math.min(low, tonumber(string.sub(entry, #g.ready + 1, #g.ready + 16))) end
  end
  return low
end

-- renew opens an account that is not active, a if the books have it, at no less than the
-- least counter of those active in its group, and forgets the accounts that this rule
-- would lift anyway.
function line.renew(g, name, arrival, a)
  a = a or line.make(g, name)
  a.came = arrival
  line.load_running(g.of and g)
  local low = line.least(g)
  for i = #g.list, 1, -1 do
    local other = g.list[i]
    if other ~= a and other.used <= low and not line.active(other) then
      if other.apart then line.disband(other) end
      line.forget(other)
    end
  end
  if g.of or books.idle > 0 then
    for _, entry in ipairs(line.filed(g.idle, g.idle .. (low == math.huge and ':' or line.digits(low + 1)), -1)) do
      local who = string.sub(entry, #g.idle + 17)
      if loaded[g.field .. who] == nil then
        unfiled[#unfiled + 1], gone[#gone + 1] = entry, g.field .. who
        loaded[g.field .. who] = false
        if not g.of then books.idle = books.idle - 1 end
      end
    end
  end
  a.used = low == math.huge and 0 or math.max(a.used, low)
  return a
end

-- drop ends an owner: its tickets leave, its slots are free and unclean. Its tickets
-- have to be searched for among all; a dead process is worth that. Its jobs are charged
-- to the end of its lease.
function line.drop(o)
  if o.tickets > 0 then
    local ids, prefix, all = {}, o.name .. ' ', call('HGETALL', TICKETS)
    for i = 1, #all, 2 do
      if string.sub(all[i + 1], 1, #prefix) == prefix then ids[#ids + 1] = all[i] end
    end
    line.withdraw(ids)
  end
  for _, s in ipairs(slots) do
    if s.state ~= IDLE and s.owner == o.name then
      line.charge(s, math.min(now, o.till))
      line.release(s, 0)
    end
  end
  for i, other in ipairs(owners) do
    if other == o then table.remove(owners, i) break end
  end
  owners[o.name] = nil
end

-- tell passes a message on to an owner, to all others if none is named.
function line.tell(to, text)
  for _, o in ipairs(owners) do
    if o.name ~= me and (to == '' or to == o.name) then call('PUBLISH', ARGV[9] .. o.name, text) end
  end
end

-- withdraw takes tickets out of the line, those that are there.
function line.withdraw(ids)
  for from = 1, #ids, 1000 do
    local part = {unpack(ids, from, math.min(from + 999, #ids))}
    local members, there, seen = {}, {}, {}
    for i, record in ipairs(call('HMGET', TICKETS, unpack(part))) do
      local id = part[i]
      if record and not seen[id] then
        local t = line.parse(id, record)
        local a = line.leaf(t)
        seen[id], there[#there + 1], members[#members + 1] = true, id, line.member(a, t)
        line.count(t, a, -1)
      end
    end
    if #there > 0 then
      call('ZREM', QUEUES, unpack(members))
      call('HDEL', TICKETS, unpack(there))
    end
  end
end
