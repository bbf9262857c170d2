-- order: who is next. It stands behind line.lua; queue/line/order.go and account.go say
-- what for.
--
-- An account is "filed apart used waiting claimants came last cost": where it is filed (r, i or
-- -), 1 if the users of this key are told apart, the slot time used, its tickets in line, how
-- many of its users have some, when it came, when a slot last ended a job of it, the slot time
-- that those who wait may take.
--
-- INDEX has, with numbers of 16 digits:
--   r URGENCY used since PURSE       R LENGTH PURSE used since USER     wait, do not run
--   h since PURSE                    H LENGTH PURSE since USER          the same
--   i CLASS used PURSE               I LENGTH PURSE used USER           not active
-- without blanks but for one behind the length. Since is when it last had the slot, or came. What a script has
-- changed is filed anew at its end: until then it goes by the accounts that it has loaded,
-- and by INDEX for the others.

-- A function that names a local of the script searches for it among all such, from the
-- latest back: what is named often is therefore declared anew here and in moves.lua.
local call, format, match, int, BUSY, BOOKS, INDEX, QUEUES, TICKETS, books, slots, now =
  call, format, match, int, BUSY, BOOKS, INDEX, QUEUES, TICKETS, books, slots, now

-- parse reads a ticket.
local function parse(id, record)
  local owner, class, came, cost, prefer, user, key = match(record, '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S*) (.*)$')
  return {
    id = id, owner = owner, class = class, arrival = tonumber(came), cost = tonumber(cost), prefer = tonumber(prefer), user = user, key = key,
    purse = class .. ' ' .. key,
  }
end

-- lookup returns the ticket with this id, nil if it is not in line.
local function lookup(id)
  local record = call('HGET', TICKETS, id)
  return record and parse(id, record) or nil
end

local function digits(n) return format('%016.0f', n) end

local loaded, everyone, met = {}, {}, 0 -- accounts by their field, and as a list; how many were loaded
local gone, unfiled = {}, {} -- fields to delete, entries to take out of INDEX

-- keys are the groups of keys by class; a group has its accounts that are loaded.
local keys, urgencies = {}, {['0'] = 1, ['1'] = 0, ['2'] = 2} -- default, interactive, batch

-- of_users is the group of the users of a key's account.
local function of_users(a)
  if not a.group_of_users then
    local name = #a.purse .. ' ' .. a.purse
    a.group_of_users = {
      of = a, class = a.class, urgency = a.urgency, ready = 'R' .. name, hungry = 'H' .. name, idle = 'I' .. name,
      field = 'u:' .. name .. ' ', list = {},
    }
  end
  return a.group_of_users
end

local function since(a) return math.max(a.came, a.last) end

-- entries are where an account is filed in INDEX.
local function entries(a)
  local g = a.group
  if a.filed == 'r' then
    return {g.ready .. digits(a.used) .. digits(since(a)) .. a.name, g.hungry .. digits(since(a)) .. a.name}
  elseif a.filed == 'i' then
    return {g.idle .. digits(a.used) .. a.name}
  end
  return {}
end

-- make adds an account to a group, with what the books have of it, if anything.
local function make(g, name, record)
  local a = {group = g, name = name, field = g.field .. name, within = g.of, class = g.class, urgency = g.urgency, index = 0}
  if g.of then
    a.purse, a.user = g.of.purse, name
  else
    a.purse, a.user = name, ''
  end
  local key = string.sub(a.purse, 3)
  a.prefix = format('%s %d ', a.class, #key) .. key .. ' ' .. a.user .. ' '
  if record then
    local filed, apart, used, waiting, claimants, came, last, cost = match(record, '^(.) (%d) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    a.filed, a.apart, a.used, a.waiting, a.claimants = filed, apart == '1', tonumber(used), tonumber(waiting), tonumber(claimants)
    a.came, a.last, a.cost = tonumber(came), tonumber(last), tonumber(cost)
  else
    a.filed, a.apart, a.used, a.waiting, a.claimants, a.came, a.last, a.cost = '-', false, 0, 0, 0, 0, 0, 0
  end
  a.record, a.entries = record, entries(a)
  loaded[a.field], g.list[#g.list + 1], everyone[#everyone + 1], met = a, a, a, met + 1
  return a
end

-- load reads accounts of a group by their names, those that are not loaded yet.
local function load(g, names)
  for from = 1, #names, 1000 do
    local missing, fields = {}, {}
    for i = from, math.min(from + 999, #names) do
      local field = g.field .. names[i]
      if loaded[field] == nil then
        loaded[field] = false
        missing[#missing + 1], fields[#fields + 1] = names[i], field
      end
    end
    if #fields > 0 then
      for i, record in ipairs(call('HMGET', BOOKS, unpack(fields))) do
        if record then make(g, missing[i], record) end
      end
    end
  end
end

local function get(g, name)
  if loaded[g.field .. name] == nil then load(g, {name}) end
  return loaded[g.field .. name] or nil
end

local function group_of(purse)
  local class = string.sub(purse, 1, 1)
  local g, urgency = keys[class], urgencies[class]
  if not g then
    g = {class = class, urgency = urgency, ready = 'r' .. urgency, hungry = 'h', idle = 'i' .. class, field = 'a:', list = {}}
    keys[class] = g
  end
  return g
end

local function account(purse) return get(group_of(purse), purse) end

-- serves says whether a slot runs a job of an account.
local function serves(s, a) return s.state == BUSY and s.purse == a.purse and (not a.within or s.user == a.user) end

-- spent is how long a slot has been running its job.
local function spent(s, till)
  if s.state ~= BUSY then return 0 end
  return math.max(0, till - s.since)
end

-- level is what an account has used, with what runs.
local function level(a)
  local used = a.used
  for _, s in ipairs(slots) do
    if serves(s, a) then used = used + spent(s, now) end
  end
  return used
end

-- runs says whether a slot runs a job of an account.
local function runs(a)
  for _, s in ipairs(slots) do
    if serves(s, a) then return true end
  end
  return false
end

local function active(a) return a.waiting > 0 or runs(a) end

-- load_running reads the accounts of a group that slots run jobs of: they are not filed.
local function load_running(g)
  for _, s in ipairs(slots) do
    if s.state == BUSY and not g then
      account(s.purse)
    elseif s.state == BUSY and s.purse == g.of.purse then
      get(g, s.user)
    end
  end
end

-- hidden is how many members with tickets in line are not loaded, of the users of a key
-- or, without a group, of all keys.
local function hidden(g)
  local n = g and g.of.claimants or books.claimants
  for _, a in ipairs(g and g.list or everyone) do
    if a.waiting > 0 and (g or not a.within) then n = n - 1 end
  end
  return n
end

-- filed lists what INDEX has behind a prefix, up to many.
local function filed(prefix, below, many)
  return call('ZRANGEBYLEX', INDEX, '[' .. prefix, '(' .. below, 'LIMIT', 0, many)
end

-- first is the first entry behind a prefix whose account is not loaded, its name being
-- behind so many letters.
local function first(prefix, group, name)
  for _, entry in ipairs(filed(prefix, prefix .. ':', met + 1)) do
    local who = string.sub(entry, name + 1)
    local g = group or group_of(who)
    if loaded[g.field .. who] == nil then return entry, who, g end
  end
end

-- load_first reads the accounts of which one is the first that is not loaded.
local function load_first(g, cutoff)
  if hidden(g) <= 0 then return end
  local ready, hungry = g and g.ready or 'r', g and g.hungry or 'h'
  local _, name, group = first(ready, g, #ready + (g and 32 or 33))
  local entry, starving, its = first(hungry, g, #hungry + 16)
  if name then get(group, name) end
  if entry and tonumber(string.sub(entry, #hungry + 1, #hungry + 16)) <= cutoff then get(its, starving) end
end

-- load_waiting reads all that have tickets in line.
local function load_waiting(g)
  if hidden(g) <= 0 then return end
  local ready = g and g.ready or 'r'
  local names = {}
  for _, entry in ipairs(filed(ready, ready .. ':', -1)) do
    local name = string.sub(entry, #ready + (g and 33 or 34))
    local group = g or group_of(name)
    names[group] = names[group] or {}
    table.insert(names[group], name)
  end
  for group, list in pairs(names) do load(group, list) end
end

-- forget takes an account off the books.
local function forget(a)
  for _, entry in ipairs(a.entries) do unfiled[#unfiled + 1] = entry end
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
local function disband(a)
  local g = of_users(a)
  load_running(g)
  while #g.list > 0 do forget(g.list[1]) end
  for _, entry in ipairs(filed(g.idle, g.idle .. ':', -1)) do
    unfiled[#unfiled + 1] = entry
    gone[#gone + 1] = g.field .. string.sub(entry, #g.idle + 17)
  end
  a.apart, a.claimants, a.group_of_users = false, 0, nil
end

-- least is the least counter of the active members of a group.
local function least(g)
  local low = math.huge -- nobody is active: all start anew
  for _, a in ipairs(g.list) do
    if active(a) then low = math.min(low, level(a)) end
  end
  if hidden(g.of and g) > 0 then
    local entry = first(g.ready, g, #g.ready + 32)
    if entry then low = math.min(low, tonumber(string.sub(entry, #g.ready + 1, #g.ready + 16))) end
  end
  return low
end

-- enter opens an account, at no less than the least counter of those active in its
-- group, and forgets the accounts that this rule would lift anyway.
local function enter(g, name, arrival)
  local a = get(g, name)
  if a and active(a) then
    a.came = math.min(a.came, arrival)
    return a
  end
  a = a or make(g, name)
  a.came = arrival
  load_running(g.of and g)
  local low = least(g)
  for i = #g.list, 1, -1 do
    local other = g.list[i]
    if other ~= a and other.used <= low and not active(other) then
      if other.apart then disband(other) end
      forget(other)
    end
  end
  if g.of or books.idle > 0 then
    for _, entry in ipairs(filed(g.idle, g.idle .. (low == math.huge and ':' or digits(low + 1)), -1)) do
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

-- part tells the users of a key apart or no more, as its first ticket in line says.
local function part(a, user)
  if a.waiting > 0 then return end
  if user == '' and a.apart then
    disband(a)
  elseif user ~= '' then
    a.apart = true
  end
end

-- open enters the accounts of a ticket and returns the one whose queue it is.
local function open(t)
  local a = enter(group_of(t.purse), t.purse, t.arrival)
  part(a, t.user)
  return a.apart and enter(of_users(a), t.user, t.arrival) or a
end

-- leaf is the account whose queue a ticket in line stands in.
local function leaf(t)
  local a = account(t.purse)
  return a.apart and get(of_users(a), t.user) or a
end

-- charge books what a job has run until till on its accounts.
local function charge(s, till)
  local ran = spent(s, till)
  local a = s.state == BUSY and account(s.purse)
  local user = a and a.apart and get(of_users(a), s.user)
  if a then a.used, a.last = a.used + ran, math.max(a.last, till) end
  if user then user.used, user.last = user.used + ran, math.max(user.last, till) end
  return ran
end

-- bill charges a job that gave its slot back, and learns from it what slot times are
-- typical. An hour is the longest.
local function bill(s)
  if s.state == BUSY then
    books.typical = math.max(1, math.floor((7 * books.typical + math.min(charge(s, now), 3600000000)) / 8))
  end
end

-- member is how a ticket is written in QUEUES.
local function member(a, t)
  return a.prefix .. digits(t.arrival) .. t.id .. ' ' .. t.owner .. ' ' .. int(t.cost) .. ' ' .. int(t.prefer) .. ' ' .. t.user
end

-- head is the first ticket of an account that has some.
local function head(a)
  local text = call('ZRANGEBYLEX', QUEUES, '[' .. a.prefix, '(' .. a.prefix .. ':', 'LIMIT', 0, 1)[1]
  local arrival, rest = string.sub(text, #a.prefix + 1, #a.prefix + 16), string.sub(text, #a.prefix + 17)
  local id, owner, cost, prefer, user = match(rest, '^(%S+) (%S+) (%d+) (%d+) (%S*)$')
  return {
    id = id, owner = owner, class = a.class, arrival = tonumber(arrival), cost = tonumber(cost), user = user,
    prefer = tonumber(prefer), key = string.sub(a.purse, 3), purse = a.purse,
  }
end

local cutoff = now - ARGV[11] -- who has gone without the slot since then starves

-- weigh readies an account with tickets in line for being compared: what it has used,
-- and since when it starves, if it does.
local function weigh(a)
  a.level, a.since = level(a), since(a)
  a.starving = a.since <= cutoff and not runs(a) and a.since or nil
end

-- less compares names by their bytes; the operator goes by the locale.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- earlier compares turns of one class at the same counter.
local function earlier(a, index, b)
  if index ~= b.index then return index < b.index end
  if a.since ~= b.since then return a.since < b.since end
  return less(a.name, b.name)
end

-- sooner says whether the first ticket of account a has its turn before b, the first of
-- another account or any ticket with the same fields.
local function sooner(a, b)
  if a.starving and b.starving then
    if a.starving ~= b.starving then return a.starving < b.starving end
    return less(a.name, b.name)
  elseif a.starving or b.starving then
    return a.starving ~= nil
  end
  if a.urgency ~= b.urgency then return a.urgency < b.urgency end
  if a.level ~= b.level then return a.level < b.level end
  return earlier(a, 0, b)
end

-- foremost is the account whose turn it is, of the users of a key or, without a group,
-- of all keys; one must have a ticket in line.
local function foremost(g)
  load_running(g)
  load_first(g, cutoff)
  local best
  for _, a in ipairs(g and g.list or everyone) do
    if a.waiting > 0 and (g or not a.within) then
      weigh(a)
      if not best or sooner(a, best) then best = a end
    end
  end
  return best
end

-- upcoming is the account whose first ticket is to be served now; somebody must wait.
local function upcoming()
  local a = foremost()
  return a.apart and foremost(of_users(a)) or a
end

-- ahead is how many tickets of an account have their turn before t.
local function ahead(a, t)
  if not sooner(a, t) then return 0 end
  local apart = t.level - a.level
  if t.starving or a.urgency > t.urgency or a.urgency == t.urgency and apart < 0 then return 1 end -- the starving one
  if a.urgency < t.urgency then return a.waiting end
  local rest = apart % books.typical
  local turns = (apart - rest) / books.typical
  if turns >= a.waiting then return a.waiting end
  if rest > 0 or earlier(a, turns, t) then turns = turns + 1 end
  return math.max(1, turns)
end

local sized = {} -- the accounts with tickets in line, by group

-- before is how many tickets of a group, or of all, have their turn before the one that
-- index others of account own stand before, and what they may cost. Nothing may change
-- after the first call.
local function before(g, own, index)
  local list = sized[g or sized]
  if not list then
    load_running(g)
    load_waiting(g)
    list, sized[g or sized] = {}, {}
    for _, a in ipairs(g and g.list or everyone) do
      if a.waiting > 0 and (g or not a.within) then
        weigh(a)
        list[#list + 1] = a
      end
    end
    sized[g or sized] = list
  end
  local t = {
    index = index, level = own.level + index * books.typical, starving = index == 0 and own.starving or nil,
    urgency = own.urgency, since = own.since, name = own.name,
  }
  local place, work = 0, 0
  for _, a in ipairs(list) do
    local n = ahead(a, t)
    place, work = place + n, work + n * math.floor(a.cost / a.waiting)
  end
  return place, work
end

-- stand is where a ticket stands, 1 being next in line, and what those before it may
-- cost. Index is how many stand before it in its own queue.
local function stand(a, index)
  if a.within then
    index = before(a.group, a, index)
    a = a.within
  end
  local place, work = before(nil, a, index)
  return place + 1, work
end

-- rank is how many stand before a ticket in its own queue.
local function rank(a, t) return call('ZLEXCOUNT', QUEUES, '[' .. a.prefix, '(' .. member(a, t)) end

-- file writes the accounts that have changed and puts them where they belong. It
-- returns a list of field and record.
local function file()
  local added, set = {}, {}
  for i = #everyone, 1, -1 do
    local a = everyone[i]
    if a and a.apart and not active(a) then disband(a) end
  end
  for _, a in ipairs(everyone) do
    if not a.within then books.idle = books.idle - (a.filed == 'i' and 1 or 0) end
    a.filed = runs(a) and '-' or a.waiting > 0 and 'r' or 'i'
    if not a.within then books.idle = books.idle + (a.filed == 'i' and 1 or 0) end
    local record = format('%s %d %.0f %d %d %.0f %.0f %.0f',
      a.filed, a.apart and 1 or 0, a.used, a.waiting, a.claimants, a.came, a.last, a.cost)
    if record ~= a.record then
      local now_at = entries(a)
      if table.concat(now_at, '\n') ~= table.concat(a.entries, '\n') then
        for _, entry in ipairs(a.entries) do unfiled[#unfiled + 1] = entry end
        for _, entry in ipairs(now_at) do
          added[#added + 1] = 0
          added[#added + 1] = entry
        end
      end
      set[#set + 1] = a.field
      set[#set + 1] = record
      a.record, a.entries = record, now_at
    end
  end
  for from = 1, #unfiled, 1000 do call('ZREM', INDEX, unpack(unfiled, from, math.min(from + 999, #unfiled))) end
  for from = 1, #added, 1000 do call('ZADD', INDEX, unpack(added, from, math.min(from + 999, #added))) end
  for from = 1, #gone, 1000 do call('HDEL', BOOKS, unpack(gone, from, math.min(from + 999, #gone))) end
  return set
end

-- tell_running fills in what the slots are doing that are not out of order, unless the
-- gate is closed.
local function tell_running()
  if books.gate ~= OPEN then return end
  for _, s in ipairs(slots) do
    if not sick(s.state) then
      running_for[#running_for + 1] = spent(s, now)
      running_for[#running_for + 1] = s.state == BUSY and s.cost or 0
    end
  end
end
