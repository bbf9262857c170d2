-- order: who is next. It stands behind line.lua; queue/line/order.go and account.go say
-- what for.
--
-- An account is filed, apart, used, waiting, claimants, came, last, cost: where it is filed (r, i or
-- -), whether the users of this key are told apart, the slot time used, its tickets in line, how
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

-- lookup returns the ticket with this id, nil if it is not in line.
function line.lookup(id)
  local record = call('HGET', TICKETS, id)
  return record and line.parse(id, record) or nil
end

function line.digits(n) return format('%016.0f', n) end

-- keys are the groups of keys by class; a group has its accounts that are loaded.
local keys = {}
line.urgencies = {['0'] = 1, ['1'] = 0, ['2'] = 2} -- default, interactive, batch

function line.since(a) return math.max(a.came, a.last) end

-- place notes by what an account is filed.
function line.place(a) a.was_filed, a.was_used, a.was_since = a.filed, a.used, line.since(a) end

-- make adds an account to a group, with what the books have of it, if anything.
function line.make(g, name, record)
  local a = {group = g, name = name, field = g.field .. name, within = g.of, class = g.class, urgency = g.urgency, index = 0}
  if g.of then
    a.purse, a.user = g.of.purse, name
  else
    a.purse, a.user = name, ''
  end
  if record then
    a.filed, a.apart, a.used, a.waiting, a.claimants, a.came, a.last, a.cost = cmsgpack.unpack(record)
  else
    a.filed, a.apart, a.used, a.waiting, a.claimants, a.came, a.last, a.cost = '-', false, 0, 0, 0, 0, 0, 0
  end
  a.record = record
  line.place(a)
  loaded[a.field], g.list[#g.list + 1], everyone[#everyone + 1], met = a, a, a, met + 1
  return a
end

function line.get(g, name)
  local field = g.field .. name
  if loaded[field] == nil then
    loaded[field] = false
    local record = call('HGET', BOOKS, field)
    if record then return line.make(g, name, record) end
  end
  return loaded[field] or nil
end

function line.group_of(purse)
  local class = string.sub(purse, 1, 1)
  local g, urgency = keys[class], line.urgencies[class]
  if not g then
    g = {class = class, urgency = urgency, ready = 'r' .. urgency, hungry = 'h', idle = 'i' .. class, field = 'a:', list = {}}
    keys[class] = g
  end
  return g
end

function line.account(purse) return line.get(line.group_of(purse), purse) end

-- serves says whether a slot runs a job of an account.
function line.serves(s, a) return s.state == BUSY and s.purse == a.purse and (not a.within or s.user == a.user) end

-- spent is how long a slot has been running its job.
function line.spent(s, till)
  if s.state ~= BUSY then return 0 end
  return math.max(0, till - s.since)
end

-- level is what an account has used, with what runs.
function line.level(a)
  local used = a.used
  for _, s in ipairs(slots) do
    if line.serves(s, a) then used = used + line.spent(s, now) end
  end
  return used
end

-- runs says whether a slot runs a job of an account.
function line.runs(a)
  for _, s in ipairs(slots) do
    if line.serves(s, a) then return true end
  end
  return false
end

function line.active(a) return a.waiting > 0 or line.runs(a) end

-- load_running reads the accounts of a group that slots run jobs of: they are not filed.
function line.load_running(g)
  for _, s in ipairs(slots) do
    if s.state == BUSY and not g then
      line.account(s.purse)
    elseif s.state == BUSY and s.purse == g.of.purse then
      line.get(g, s.user)
    end
  end
end

-- hidden is how many members with tickets in line are not loaded, of the users of a key
-- or, without a group, of all keys.
function line.hidden(g)
  local n = g and g.of.claimants or books.claimants
  for _, a in ipairs(g and g.list or everyone) do
    if a.waiting > 0 and (g or not a.within) then n = n - 1 end
  end
  return n
end

-- enter opens an account.
function line.enter(g, name, arrival)
  local a = line.get(g, name)
  if a and line.active(a) then
    a.came = math.min(a.came, arrival)
    return a
  end
  return line.renew(g, name, arrival, a)
end

-- part tells the users of a key apart or no more, as its first ticket in line says.
function line.part(a, user)
  if a.waiting > 0 then return end
  if user == '' and a.apart then
    line.disband(a)
  elseif user ~= '' then
    a.apart = true
  end
end

-- open enters the accounts of a ticket and returns the one whose queue it is.
function line.open(t)
  local a = line.enter(line.group_of(t.purse), t.purse, t.arrival)
  line.part(a, t.user)
  return a.apart and line.enter(line.of_users(a), t.user, t.arrival) or a
end

-- leaf is the account whose queue a ticket in line stands in.
function line.leaf(t)
  local a = line.account(t.purse)
  return a.apart and line.get(line.of_users(a), t.user) or a
end

-- charge books what a job has run until till on its accounts.
function line.charge(s, till)
  local ran = line.spent(s, till)
  local a = s.state == BUSY and line.account(s.purse)
  local user = a and a.apart and line.get(line.of_users(a), s.user)
  if a then a.used, a.last = a.used + ran, math.max(a.last, till) end
  if user then user.used, user.last = user.used + ran, math.max(user.last, till) end
  return ran
end

-- bill charges a job that gave its slot back, and learns from it what slot times are
-- typical. An hour is the longest.
function line.bill(s)
  if s.state == BUSY then
    books.typical = math.max(1, math.floor((7 * books.typical + math.min(line.charge(s, now), 3600000000)) / 8))
  end
end

-- prefix is how all tickets of an account begin in QUEUES.
function line.prefix(a)
  if not a.prefix then a.prefix = a.class .. ' ' .. #a.purse - 2 .. string.sub(a.purse, 2) .. ' ' .. a.user .. ' ' end
  return a.prefix
end

-- member is how a ticket is written in QUEUES.
function line.member(a, t)
  return line.prefix(a) .. line.digits(t.arrival) .. t.id .. ' ' .. t.owner .. ' ' .. line.int(t.cost) .. ' ' .. line.int(t.prefer) .. ' ' .. t.user
end

-- head is the first ticket of an account that has some.
function line.head(a)
  local prefix = line.prefix(a)
  local text = call('ZRANGEBYLEX', QUEUES, '[' .. prefix, '(' .. prefix .. ':', 'LIMIT', 0, 1)[1]
  local arrival = string.sub(text, #prefix + 1, #prefix + 16)
  local id, owner, cost, prefer, user = match(text, '^(%S+) (%S+) (%d+) (%d+) (%S*)$', #prefix + 17)
  return {
    member = text, id = id, owner = owner, class = a.class, arrival = tonumber(arrival), cost = tonumber(cost), user = user,
    prefer = tonumber(prefer), key = string.sub(a.purse, 3), purse = a.purse,
  }
end

-- foremost is the account whose turn it is, of the users of a key or, without a group,
-- of all keys; one must have a ticket in line.
function line.foremost(g)
  line.load_running(g)
  if line.hidden(g) > 0 then line.load_first(g, cutoff) end
  local best, several
  for _, a in ipairs(g and g.list or everyone) do
    if a.waiting > 0 and (g or not a.within) then
      if best then
        if not several then line.weigh(best) end
        several = true
        line.weigh(a)
      end
      if not best or line.sooner(a, best) then best = a end
    end
  end
  return best
end

-- upcoming is the account whose first ticket is to be served now; somebody must wait.
function line.upcoming()
  local a = line.foremost()
  return a.apart and line.foremost(line.of_users(a)) or a
end

-- file writes the accounts that have changed and puts them where they belong. It
-- returns a list of field and record.
function line.file()
  local added, set = {}, {}
  for i = #everyone, 1, -1 do
    local a = everyone[i]
    if a and a.apart and not line.active(a) then line.disband(a) end
  end
  for _, a in ipairs(everyone) do
    if not a.within then books.idle = books.idle - (a.filed == 'i' and 1 or 0) end
    a.filed = line.runs(a) and '-' or a.waiting > 0 and 'r' or 'i'
    if not a.within then books.idle = books.idle + (a.filed == 'i' and 1 or 0) end
    local record = cmsgpack.pack(a.filed, a.apart, a.used, a.waiting, a.claimants, a.came, a.last, a.cost)
    if record ~= a.record then
      if a.filed ~= a.was_filed or a.filed ~= '-' and (a.used ~= a.was_used or line.since(a) ~= a.was_since) then
        for _, entry in ipairs(line.entries(a)) do unfiled[#unfiled + 1] = entry end
        line.place(a)
        for _, entry in ipairs(line.entries(a)) do
          added[#added + 1] = 0
          added[#added + 1] = entry
        end
      end
      set[#set + 1], set[#set + 2] = a.field, record
    end
  end
  for from = 1, #unfiled, 1000 do call('ZREM', INDEX, unpack(unfiled, from, math.min(from + 999, #unfiled))) end
  for from = 1, #added, 1000 do call('ZADD', INDEX, unpack(added, from, math.min(from + 999, #added))) end
  for from = 1, #gone, 1000 do call('HDEL', BOOKS, unpack(gone, from, math.min(from + 999, #gone))) end
  return set
end

