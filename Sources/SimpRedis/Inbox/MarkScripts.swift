/// The scripts of `MarkDirectory`.
///
/// `marks` is a hash: field `DEVICE RECIPIENT STATE`, value the ranges of orders in rising order, `12-40,42-42`. Numbers
/// are below 2^40, because Lua counts in doubles.
enum MarkScripts {
  private static let ranges = """
    local function parse(text)
      local list = {}
      for a, b in string.gmatch(text or '', '(%d+)-(%d+)') do table.insert(list, {tonumber(a), tonumber(b)}) end
      return list
    end

    local function written(list)
      local words = {}
      for _, range in ipairs(list) do table.insert(words, string.format('%.0f-%.0f', range[1], range[2])) end
      return table.concat(words, ',')
    end

    local function size(list)
      local sum = 0
      for _, range in ipairs(list) do sum = sum + range[2] - range[1] + 1 end
      return sum
    end

    local function union(a, b)
      local all, list = {}, {}
      for _, range in ipairs(a) do table.insert(all, range) end
      for _, range in ipairs(b) do table.insert(all, range) end
      table.sort(all, function(x, y) return x[1] < y[1] end)
      for _, range in ipairs(all) do
        local last = list[#list]
        if last and range[1] <= last[2] + 1 then
          last[2] = math.max(last[2], range[2])
        else
          table.insert(list, {range[1], range[2]})
        end
      end
      return list
    end

    -- Both in rising order.
    local function without(a, b)
      local list, next = {}, 1
      for _, range in ipairs(a) do
        local low, high = range[1], range[2]
        while b[next] and b[next][2] < low do next = next + 1 end
        local i = next
        while b[i] and b[i][1] <= high do
          if low < b[i][1] then table.insert(list, {low, b[i][1] - 1}) end
          low = b[i][2] + 1
          i = i + 1
        end
        if low <= high then table.insert(list, {low, high}) end
      end
      return list
    end

    -- Takes orders out of a field. Returns how many were there.
    local function take(key, field, orders)
      local held = parse(redis.call('HGET', key, field))
      local left = without(held, orders)
      if #left == 0 then
        redis.call('HDEL', key, field)
      else
        redis.call('HSET', key, field, written(left))
      end
      return size(held) - size(left)
    end

    """

  /// KEYS: marks. ARGV: device and recipient, state, ranges, ranges a field holds, fields a user has, how long in ms
  /// the key stands without a further mark. Returns how many orders were given up for room.
  static let mark =
    ranges + """
      local marks, prefix, state, orders = KEYS[1], ARGV[1] .. ' ', ARGV[2], union(parse(ARGV[3]), {})
      local field, limit = prefix .. state, tonumber(ARGV[5])
      -- Who was told that it was read needs no word of its delivery.
      if state == 'delivered' then orders = without(orders, parse(redis.call('HGET', marks, prefix .. 'read'))) end
      if #orders == 0 then return 0 end

      local lost = 0
      if redis.call('HLEN', marks) >= limit and redis.call('HEXISTS', marks, field) == 0 then
        local names = redis.call('HKEYS', marks)
        local function device(name) return tonumber(string.match(name, '^%d+') or '0') end
        table.sort(names, function(a, b)
          local one, other = device(a), device(b)
          return one < other or one == other and a < b
        end)
        -- An eighth at once, so that not each further mark has to look through all.
        for i = 1, #names - limit + math.ceil(limit / 8) do
          lost = lost + size(parse(redis.call('HGET', marks, names[i])))
          redis.call('HDEL', marks, names[i])
        end
      end

      local list = union(parse(redis.call('HGET', marks, field)), orders)
      while #list > tonumber(ARGV[4]) do lost = lost + size({table.remove(list, 1)}) end
      redis.call('HSET', marks, field, written(list))
      if state == 'read' then take(marks, prefix .. 'delivered', orders) end
      redis.call('PEXPIRE', marks, ARGV[6])
      return lost
      """

  /// KEYS: marks. ARGV: device. Returns fields and values in turn.
  static let marks = """
    local prefix, found = ARGV[1] .. ' ', {}
    for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
      if string.sub(name, 1, #prefix) == prefix then
        table.insert(found, name)
        table.insert(found, redis.call('HGET', KEYS[1], name))
      end
    end
    return found
    """

  /// KEYS: marks. ARGV: device and recipient, state, ranges. Returns how many of the orders were there.
  ///
  /// A range that is cut in two takes a few bytes more: that must work in a Redis that is full, too.
  static let confirm =
    "#!lua flags=allow-oom\n" + ranges + """
      return take(KEYS[1], ARGV[1] .. ' ' .. ARGV[2], union(parse(ARGV[3]), {}))
      """
}
