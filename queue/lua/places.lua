-- places: where a ticket stands. It stands behind accounts.lua and is run with it.

-- weigh readies an account with tickets in line for being compared: what it has used,
-- and since when it starves, if it does.
function line.weigh(a)
  a.level, a.since = line.level(a), line.since(a)
  a.starving = a.since <= cutoff and not line.runs(a) and a.since or nil
end

-- less compares names by their bytes; the operator goes by the locale.
function line.less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- earlier compares turns of one class at the same counter.
function line.earlier(a, index, b)
  if index ~= b.index then return index < b.index end
  if a.since ~= b.since then return a.since < b.since end
  return line.less(a.name, b.name)
end

-- sooner says whether the first ticket of account a has its turn before b, the first of
-- another account or any ticket with the same fields.
function line.sooner(a, b)
  if a.starving and b.starving then
    if a.starving ~= b.starving then return a.starving < b.starving end
    return line.less(a.name, b.name)
  elseif a.starving or b.starving then
    return a.starving ~= nil
  end
  if a.urgency ~= b.urgency then return a.urgency < b.urgency end
  if a.level ~= b.level then return a.level < b.level end
  return line.earlier(a, 0, b)
end

-- load reads accounts of a group by their names, those that are not loaded yet.
function line.load(g, names)
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
        if record then line.make(g, missing[i], record) end
      end
    end
  end
end

-- load_waiting reads all that have tickets in line.
function line.load_waiting(g)
  if line.hidden(g) <= 0 then return end
  local ready = g and g.ready or 'r'
  local names = {}
  for _, entry in ipairs(line.filed(ready, ready .. ':', -1)) do
    local name = string.sub(entry, #ready + (g and 33 or 34))
    local group = g or line.group_of(name)
    names[group] = names[group] or {}
    table.insert(names[group], name)
  end
  for group, list in pairs(names) do line.load(group, list) end
end

-- ahead is how many tickets of an account have their turn before t.
function line.ahead(a, t)
  if not line.sooner(a, t) then return 0 end
  local apart = t.level - a.level
  if t.starving or a.urgency > t.urgency or a.urgency == t.urgency and apart < 0 then return 1 end -- the starving one
  if a.urgency < t.urgency then return a.waiting end
  local rest = apart % books.typical
  local turns = (apart - rest) / books.typical
  if turns >= a.waiting then return a.waiting end
  if rest > 0 or line.earlier(a, turns, t) then turns = turns + 1 end
  return math.max(1, turns)
end

local sized = {} -- the accounts with tickets in line, by group

-- before is how many tickets of a group, or of all, have their turn before the one that
-- index others of account own stand before, and what they may cost. Nothing may change
-- after the first call.
function line.before(g, own, index)
  local list = sized[g or sized]
  if not list then
    line.load_running(g)
    line.load_waiting(g)
    list, sized[g or sized] = {}, {}
    for _, a in ipairs(g and g.list or everyone) do
      if a.waiting > 0 and (g or not a.within) then
        line.weigh(a)
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
    local n = line.ahead(a, t)
    place, work = place + n, work + n * math.floor(a.cost / a.waiting)
  end
  return place, work
end

-- stand is where a ticket stands, 1 being next in line, and what those before it may
-- cost. Index is how many stand before it in its own queue.
function line.stand(a, index)
  if a.within then
    index = line.before(a.group, a, index)
    a = a.within
  end
  local place, work = line.before(nil, a, index)
  return place + 1, work
end

-- rank is how many stand before a ticket in its own queue.
function line.rank(a, t) return call('ZLEXCOUNT', QUEUES, '[' .. line.prefix(a), '(' .. line.member(a, t)) end
