-- moves: how tickets and slots change hands. It stands behind order.lua.

local call, books, slots, now, me, IDLE, BUSY, format, owners, account, foremost =
  call, books, slots, now, me, IDLE, BUSY, format, owners, account, foremost

-- owner returns the caller's entry, made if need be. When nobody else is there,
-- nobody has watched the idle engines, so they are to be proved again.
local function owner()
  local o = owners[me]
  if not o then
    if #owners == 0 then
      for _, s in ipairs(slots) do
        if s.clean == 1 then s.clean, s.changed = 0, true end
      end
    end
    o = {name = me, till = now + lease, tickets = 0}
    owners[#owners + 1], owners[me], owners_changed = o, o, true
  end
  return o
end

-- count books one ticket more (n is 1) or less (-1) of an owner and of accounts.
local function count(t, a, n)
  books.waiting, books.version = books.waiting + n, books.version + 1
  if t.class ~= '2' then books.pressing = books.pressing + n end
  owners[t.owner].tickets, owners_changed = owners[t.owner].tickets + n, true
  while a do
    local was = a.waiting > 0
    a.waiting, a.cost = a.waiting + n, a.cost + n * t.cost
    if was ~= (a.waiting > 0) then
      if a.within then a.within.claimants = a.within.claimants + n else books.claimants = books.claimants + n end
    end
    a = a.within
  end
end

-- insert puts a ticket of the caller in line, and returns the account in whose queue it is.
local function insert(t)
  owner()
  t.owner = me
  if t.cost == 0 then t.cost = books.typical end
  local a = open(t)
  call('ZADD', QUEUES, 0, member(a, t))
  call('HSET', TICKETS, t.id, format('%s %s %.0f %.0f %.0f %s ', me, t.class, t.arrival, t.cost, t.prefer, t.user) .. t.key)
  count(t, a, 1)
  return a
end

-- remove takes tickets out of the line, which are there.
local function remove(tickets, ids)
  local members = {}
  for i, t in ipairs(tickets) do
    local a = leaf(t)
    members[i] = member(a, t)
    count(t, a, -1)
  end
  if #ids > 0 then
    call('ZREM', QUEUES, unpack(members))
    call('HDEL', TICKETS, unpack(ids))
  end
end

-- withdraw takes tickets out of the line, those that are there.
local function withdraw(ids)
  for from = 1, #ids, 1000 do
    local part = {unpack(ids, from, math.min(from + 999, #ids))}
    local tickets, there, seen = {}, {}, {}
    for i, record in ipairs(call('HMGET', TICKETS, unpack(part))) do
      local id = part[i]
      if record and not seen[id] then
        seen[id], there[#there + 1], tickets[#tickets + 1] = true, id, parse(id, record)
      end
    end
    remove(tickets, there)
  end
end

-- drop ends an owner: its tickets leave, its slots are free and unclean. Its tickets
-- have to be searched for among all; a dead process is worth that. Its jobs are charged
-- to the end of its lease.
local function drop(o)
  if o.tickets > 0 then
    local ids, prefix, all = {}, o.name .. ' ', call('HGETALL', TICKETS)
    for i = 1, #all, 2 do
      if string.sub(all[i + 1], 1, #prefix) == prefix then ids[#ids + 1] = all[i] end
    end
    withdraw(ids)
  end
  for _, s in ipairs(slots) do
    if s.state ~= IDLE and s.owner == o.name then
      charge(s, math.min(now, o.till))
      release(s, 0)
    end
  end
  for i, other in ipairs(owners) do
    if other == o then table.remove(owners, i) break end
  end
  owners[o.name], owners_changed = nil, true
end

local function add(list, s)
  local n = #list
  list[n + 1], list[n + 2], list[n + 3], list[n + 4], list[n + 5] = s.slot, int(s.fence), s.state, s.owner, s.id
end

-- hand gives a free slot away under a new number, and tells an owner elsewhere.
local function hand(s, to, id, state)
  books.fence = math.max(books.fence + 1, now)
  s.fence, s.state, s.owner, s.id, s.clean, s.since, s.changed = books.fence, state, to.owner, id, 0, now, true
  if state == BUSY then s.purse, s.user, s.came, s.cost = to.purse, to.user, to.arrival, to.cost end
  add(grants, s)
  if to.owner ~= me then
    call('PUBLISH', ARGV[9] .. to.owner, format('granted %.0f %d %s %s', s.fence, state, id, s.slot))
  end
end

local function granting() return books.gate == OPEN and now >= books.quiet end

-- ready finds a clean slot that is free, the first of those preferred or, if there is
-- none, the first of all. Prefer is a number with a bit for each.
local function ready(prefer)
  local first
  for i, s in ipairs(slots) do
    if s.state == IDLE and s.clean == 1 then
      if math.floor(prefer / 2 ^ (i - 1)) % 2 == 1 then return s end
      first = first or s
    end
  end
  return first
end

-- grant hands out what is free: clean slots to those who are next, unclean ones to
-- the owner of whoever is next then, to make the engine idle.
local function grant()
  if not granting() then return end
  while books.waiting > 0 and ready(0) do
    local t = head(upcoming())
    remove({t}, {t.id})
    hand(ready(t.prefer), t, t.id, BUSY)
  end
  local t
  for _, s in ipairs(slots) do
    if s.state == IDLE and books.waiting > 0 then
      t = t or head(upcoming())
      hand(s, t, '', ABORTING)
    end
  end
end

-- youngest is the slot that was lent last to a batch job, of those that may be asked for.
local function youngest()
  local best
  for _, s in ipairs(slots) do
    if s.state == BUSY and string.sub(s.purse, 1, 1) == '2' and s.asked == UNASKED and not (best and s.fence < best.fence)
      and since(account(s.purse)) > cutoff then
      best = s
    end
  end
  return best
end

-- ask asks for slots that batch jobs have, when jobs of better classes wait.
local function ask()
  if books.waiting == 0 or not granting() or not youngest() then return end
  if foremost().class == '2' then return end
  local short = books.pressing
  for _, s in ipairs(slots) do
    if s.state == ABORTING or s.state == BUSY and s.asked == ASKED then short = short - 1 end
  end
  while short > 0 do
    local s = youngest()
    if not s then return end
    s.asked, s.told, s.changed, short = ASKED, true, true, short - 1
    add(asks, s)
    if s.owner ~= me then call('PUBLISH', ARGV[9] .. s.owner, format('wanted %.0f %s', s.fence, s.slot)) end
  end
end

-- settle ends the changes of a script: hands out slots and writes the books.
local function settle()
  grant()
  ask()
  local set = file()
  local function put(field, value)
    set[#set + 1] = field
    set[#set + 1] = value
  end
  for i = 1, numbers do
    local value = books[fields[i]]
    if value ~= was[i] then put(fields[i], int(value)) end
  end
  for i, s in ipairs(slots) do
    if s.changed then
      put(fields[13 + i], format('%.0f %d %d %.0f %.0f %.0f %d %s %s %s ',
        s.fence, s.state, s.clean, s.since, s.came, s.cost, s.asked, s.owner, s.id, s.user) .. s.purse)
    end
  end
  if owners_changed then
    local list = {}
    for i, o in ipairs(owners) do list[i] = format('%s %.0f %d', o.name, o.till, o.tickets) end
    put('owners', table.concat(list, ' '))
  end
  for from = 1, #set, 1000 do call('HSET', BOOKS, unpack(set, from, math.min(from + 999, #set))) end
end

-- tell passes a message on to an owner, to all others if none is named.
local function tell(to, text)
  for _, o in ipairs(owners) do
    if o.name ~= me and (to == '' or to == o.name) then call('PUBLISH', ARGV[9] .. o.name, text) end
  end
end

-- ill is POISONED or DOWN if every slot is one of them, and 0 if one is not.
local function ill()
  local state = DOWN
  for _, s in ipairs(slots) do
    if not sick(s.state) then return 0 end
    if s.state == POISONED then state = POISONED end
  end
  return state
end

local function reply()
  return {
    verdict, books.epoch, books.version, books.waiting, arrival, place, work, known, mine, books.gate, ill(),
    grants, holds, lost, asks, running_for, more,
  }
end

-- Jobs of slots of another set run no more.
for _, record in ipairs(former) do
  local s = read_slot({}, record)
  local a = account(s.purse)
  if a and a.apart then get(of_users(a), s.user) end
end

for i = #owners, 1, -1 do
  if owners[i].till <= now then drop(owners[i]) end
end
