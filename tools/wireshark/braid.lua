-- Shows Wireshark and tshark the packets of the proxies: epochs, numbers, what is acknowledged, and every record with
-- its ports and its place in its message. docs/PROTOCOL.md has the wire format.
--
--   tshark -X lua_script:tools/wireshark/braid.lua -r cluster0-proxy0.pcapng
--
-- or copy it into the folder that Wireshark shows under Help, About, Folders, "Personal Lua Plugins". Captures are
-- written by `braid run --capture DIR`. Of sealed packets the headers are shown, and all of those that `braid decrypt` has
-- opened (docs/SECURITY.md, Reading captures).
--
-- A packet is known by what it says, whatever its UDP ports are; "Decode As" takes those that do not look right.

local VERSION = 5
local HEADER_BYTES = 48
local MOST_SACK_WORDS = 4
local WHOLE_RECORD_BYTES = 20
local PART_RECORD_BYTES = 32
local MOST_TRAIN_MESSAGES = 16
local SEAL_BYTES = 24 -- the number, and the tag
local TAG_BYTES = 16
local CHALLENGE_BYTES = 8
local MOST_TRAIN_BYTES = 2048
local TRAIN_ALIGNMENT = 8
local GRANULE_BYTES = 64
local TICK_NS = 64 -- of timestamps
local WINDOW_UNIT_BYTES = 256

local HELLO, DATA, ACK, PROBE, CLOSE, CHALLENGE, RESPONSE = 1, 2, 3, 4, 5, 6, 7
local TYPES = {
  [HELLO] = "Hello", [DATA] = "Data", [ACK] = "Acknowledgement", [PROBE] = "Probe", [CLOSE] = "Close",
  [CHALLENGE] = "Challenge", [RESPONSE] = "Response", -- of an address; only sealed
}
local MESSAGE, CREDIT, DATAGRAM, RETURNED = 1, 2, 3, 4
local KINDS = { [MESSAGE] = "Message", [CREDIT] = "Credit", [DATAGRAM] = "Datagram", [RETURNED] = "Returned datagram" }
local CONTROL = 4 -- the protocol
local FIRST_FREE_PROTOCOL = 64
local PROTOCOLS = { [1] = "messages", [2] = "shared memory", [3] = "datagrams", [CONTROL] = "control" }
local RETURNS = {
  [1] = "unknown protocol", [2] = "refused", [3] = "no such port", [4] = "no room", [5] = "maybe delivered",
}
local CONTROLS = {
  [1] = "Connect", [2] = "Accept", [3] = "Confirm", [4] = "Refuse", [5] = "Close",
  [6] = "Fence", [7] = "Fenced", [8] = "Proxies", [9] = "Fence before", [10] = "Fenced before",
}
local REASONS = {
  [0] = "none", [1] = "nobody listens", [2] = "no room there", [3] = "order mismatch", [4] = "no such cluster",
  [5] = "timeout", [6] = "peer lost", [7] = "port taken", [8] = "bad window", [9] = "no room here",
  [10] = "client gone", [11] = "bad port", [12] = "protocol mismatch",
}

local braid = Proto("braid", "Braid sliding-window transport")

local f = {
  version = ProtoField.uint8("braid.version", "Version"),
  type = ProtoField.uint8("braid.type", "Type", base.DEC, TYPES),
  records = ProtoField.uint8("braid.records", "Records"),
  sack_words = ProtoField.uint8("braid.sack_words", "Words of selective acknowledgement", base.DEC, nil, 0x7f),
  ack_at_once = ProtoField.bool("braid.ack_at_once", "Acknowledge at once", 8, nil, 0x80),
  source_cluster = ProtoField.uint16("braid.source.cluster", "Source cluster"),
  source_proxy = ProtoField.uint8("braid.source.proxy", "Source proxy"),
  destination_proxy = ProtoField.uint8("braid.destination.proxy", "Destination proxy"),
  destination_cluster = ProtoField.uint16("braid.destination.cluster", "Destination cluster"),
  ack_held = ProtoField.uint16("braid.ack_held", "Echo waited (64 ns)"),
  sender_epoch = ProtoField.uint64("braid.epoch.sender", "Sender's epoch", base.HEX),
  receiver_epoch = ProtoField.uint64("braid.epoch.receiver", "Receiver's epoch", base.HEX),
  seq = ProtoField.uint32("braid.seq", "Sequence number"),
  ack = ProtoField.uint32("braid.ack", "Acknowledges all before"),
  timestamp = ProtoField.uint32("braid.timestamp", "Timestamp (64 ns)"),
  timestamp_echo = ProtoField.uint32("braid.timestamp_echo", "Timestamp echo (64 ns)"),
  window_packets = ProtoField.uint16("braid.window.packets", "Receive window, packets"),
  window_units = ProtoField.uint16("braid.window.units", "Receive window, units of 256 bytes"),
  window_bytes = ProtoField.uint32("braid.window.bytes", "Receive window, bytes"),
  sack = ProtoField.uint64("braid.sack", "Selective acknowledgement", base.HEX),
  sacked = ProtoField.uint32("braid.sacked", "Acknowledged behind a hole"),
  challenge = ProtoField.uint64("braid.challenge", "Challenge of an address", base.HEX),
  first_sent = ProtoField.framenum("braid.first_sent", "Sent before in", base.NONE, frametype.RETRANS_PREV),

  hash = ProtoField.uint64("braid.hello.hash", "Hash of shared settings", base.HEX),
  incarnation = ProtoField.uint64("braid.hello.incarnation", "Incarnation of the node", base.HEX),
  wanted_port = ProtoField.uint16("braid.hello.source_port", "Source port that it asks for"),
  cipher = ProtoField.uint8("braid.hello.cipher", "Cipher", base.DEC, { [1] = "AES-256-GCM", [2] = "ChaCha20-Poly1305" }),
  exchange = ProtoField.uint8("braid.hello.exchange", "Key exchange", base.DEC, { [0] = "None", [1] = "First message", [2] = "Second message" }),
  sealed = ProtoField.bytes("braid.sealed", "Sealed records"),
  number = ProtoField.uint64("braid.number", "Number of the sealed packet"),
  opened = ProtoField.bool("braid.opened", "Opened with a key"),

  record = ProtoField.none("braid.record", "Record"),
  destination_port = ProtoField.uint32("braid.record.destination", "Destination port"),
  source_port = ProtoField.uint32("braid.record.source", "Source port"),
  position = ProtoField.uint32("braid.record.position", "Position (granules of 64 bytes)"),
  bytes = ProtoField.uint16("braid.record.bytes", "Bytes in this record"),
  skip = ProtoField.uint16("braid.record.skip", "Unused granules before it"),
  kind = ProtoField.uint32("braid.record.kind", "Kind", base.DEC, KINDS, 0x0f),
  protocol = ProtoField.uint32("braid.record.protocol", "Protocol", base.DEC, PROTOCOLS, 0xff00),
  returned = ProtoField.uint16("braid.record.returned", "Came back because of", base.DEC, RETURNS),
  maybe_duplicate = ProtoField.bool("braid.record.maybe_duplicate", "Perhaps delivered before, another way", 32, nil, 0x20),
  many_pieces = ProtoField.bool("braid.record.many_pieces", "Of a message of many pieces", 32, nil, 0x40),
  part = ProtoField.bool("braid.record.part", "A part", 32, nil, 0x80),
  message_bytes = ProtoField.uint32("braid.record.message_bytes", "Bytes of the whole"),
  message_offset = ProtoField.uint32("braid.record.message_offset", "Offset in the whole"),
  message = ProtoField.uint32("braid.record.message", "Position that names the message"),
  first = ProtoField.bool("braid.record.first", "Begins the message"),
  last = ProtoField.bool("braid.record.last", "Ends the message"),
  data = ProtoField.bytes("braid.record.data", "Data"),

  train_messages = ProtoField.uint8("braid.train.messages", "Messages of the train"),
  train_message = ProtoField.none("braid.train.message", "Message"),
  train_length = ProtoField.uint16("braid.train.length", "Bytes"),
  train_position = ProtoField.uint32("braid.train.position", "Position (granules of 64 bytes)"),
  train_data = ProtoField.bytes("braid.train.data", "Data"),

  control_kind = ProtoField.uint8("braid.control.kind", "Control message", base.DEC, CONTROLS),
  control_ordered = ProtoField.bool("braid.control.ordered", "Ordered"),
  control_reason = ProtoField.uint8("braid.control.reason", "Reason", base.DEC, REASONS),
  control_protocol = ProtoField.uint8("braid.control.protocol", "Protocol of the connection", base.DEC, PROTOCOLS),
  control_source = ProtoField.uint32("braid.control.source", "Sender's port"),
  control_destination = ProtoField.uint32("braid.control.destination", "Listener's or peer's port"),
  control_window = ProtoField.uint32("braid.control.window", "Window of the sender's end, bytes"),
  control_serial = ProtoField.uint32("braid.control.serial", "Serial number"),
  control_proxy = ProtoField.uint8("braid.control.proxy", "Sender's proxy, or active proxies"),
  control_peer_proxy = ProtoField.uint8("braid.control.peer_proxy", "Receiver's proxy"),
  control_epoch = ProtoField.uint64("braid.control.epoch", "Closed epoch", base.HEX),
}
for _, field in pairs(f) do table.insert(braid.fields, field) end

local e = {
  malformed = ProtoExpert.new("braid.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
  unknown_protocol = ProtoExpert.new("braid.unknown_protocol", "No protocol of Braid has that id", expert.group.PROTOCOL,
    expert.severity.WARN),
  resent = ProtoExpert.new("braid.resent", "Sent again", expert.group.SEQUENCE, expert.severity.NOTE),
}
for _, info in pairs(e) do table.insert(braid.experts, info) end

-- Frame in which a data packet came first, by epochs and number.
local seals = {} -- epochs whose packets are sealed
local first_frame = {}
function braid.init() first_frame, seals = {}, {} end

local function padded(bytes) return bytes + (4 - bytes % 4) % 4 end

-- The numbers that a word of bits acknowledges; bit 0 is `base`.
local function sacked_numbers(word, base_number)
  local numbers = {}
  for half = 0, 1 do
    local bits = half == 0 and word:lower() or word:higher()
    for i = 0, 31 do
      if bit.band(bits, bit.lshift(1, i)) ~= 0 then
        table.insert(numbers, (base_number + 32 * half + i) % 2 ^ 32)
      end
    end
  end
  return numbers
end

local function dissect_control(range, tree)
  local at = tree
  at:add_le(f.control_kind, range(0, 1))
  at:add_le(f.control_ordered, range(1, 1))
  at:add_le(f.control_reason, range(2, 1))
  at:add_le(f.control_protocol, range(3, 1))
  at:add_le(f.control_source, range(4, 4))
  at:add_le(f.control_destination, range(8, 4))
  at:add_le(f.control_window, range(12, 4))
  if range:len() >= 32 then
    at:add_le(f.control_serial, range(16, 4))
    at:add_le(f.control_proxy, range(20, 1))
    at:add_le(f.control_peer_proxy, range(21, 1))
    at:add_le(f.control_epoch, range(24, 8))
  end
  return CONTROLS[range(0, 1):uint()] or "unknown"
end

local function train_aligned(bytes) return bytes + (TRAIN_ALIGNMENT - bytes % TRAIN_ALIGNMENT) % TRAIN_ALIGNMENT end

-- The granules that a message of so many bytes takes.
local function granules_of(bytes) return math.max(1, math.ceil(bytes / GRANULE_BYTES)) end

-- What is wrong with a train whose table of lengths begins at `table_at`, or nothing.
local function train_problem(tvb, table_at, messages, bytes, word)
  if messages < 2 or messages > MOST_TRAIN_MESSAGES then return "a train has 2 to 16 messages" end
  if bytes > MOST_TRAIN_BYTES then return "the train is too long" end
  if bit.band(word, 0xcf) ~= MESSAGE then return "a train is of whole messages" end
  local sum = 0
  for i = 0, messages - 1 do sum = sum + train_aligned(tvb(table_at + 2 * i, 2):le_uint()) end
  if sum ~= bytes then return "the lengths of the train are not those of its bytes" end
end

-- The messages of a train that has no problem; its bytes begin at `data_at`.
local function dissect_train(tvb, table_at, data_at, messages, position, at)
  for i = 0, messages - 1 do
    local bytes = tvb(table_at + 2 * i, 2):le_uint()
    local aligned = train_aligned(bytes)
    local item = at:add(f.train_message, aligned > 0 and tvb(data_at, aligned) or tvb(table_at + 2 * i, 2))
    item:set_text(string.format("Message %d of %d: position %d, %d bytes", i + 1, messages, position, bytes))
    item:add_le(f.train_length, tvb(table_at + 2 * i, 2))
    item:add(f.train_position, position):set_generated()
    if bytes > 0 then item:add(f.train_data, tvb(data_at, bytes)) end
    data_at = data_at + aligned
    position = (position + granules_of(bytes)) % 2 ^ 32
  end
end

-- One record at `offset`. Returns where the next begins and what to say of it, or nothing and what is wrong.
local function dissect_record(tvb, offset, tree)
  local left = tvb:len() - offset
  if left < WHOLE_RECORD_BYTES then return nil, "a record is cut off" end
  local word = tvb(offset + 16, 4):le_uint()
  local part = bit.band(word, 0x80) ~= 0
  local messages = tvb(offset + 18, 1):uint()
  local table_at = offset + (part and PART_RECORD_BYTES or WHOLE_RECORD_BYTES)
  local header = table_at - offset + padded(2 * messages)
  local bytes = tvb(offset + 12, 2):le_uint()
  if left < header + padded(bytes) then return nil, "a record is longer than its packet" end
  local kind = bit.band(word, 0x0f)

  local at = tree:add(f.record, tvb(offset, header + padded(bytes)))
  at:add_le(f.destination_port, tvb(offset, 4))
  at:add_le(f.source_port, tvb(offset + 4, 4))
  at:add_le(f.position, tvb(offset + 8, 4))
  at:add_le(f.bytes, tvb(offset + 12, 2))
  at:add_le(f.skip, tvb(offset + 14, 2))
  at:add_le(f.kind, tvb(offset + 16, 4))
  at:add_le(f.protocol, tvb(offset + 16, 4))
  at:add_le(f.maybe_duplicate, tvb(offset + 16, 4))
  at:add_le(f.many_pieces, tvb(offset + 16, 4))
  at:add_le(f.part, tvb(offset + 16, 4))
  if messages > 0 then at:add_le(f.train_messages, tvb(offset + 18, 1)) end
  local whole_bytes, message_offset = bytes, 0
  if part then
    whole_bytes = tvb(offset + 20, 4):le_uint()
    message_offset = tvb(offset + 24, 4):le_uint()
    at:add_le(f.message_bytes, tvb(offset + 20, 4))
    at:add_le(f.message_offset, tvb(offset + 24, 4))
    at:add_le(f.message, tvb(offset + 28, 4))
  else
    at:add(f.message_bytes, whole_bytes):set_generated()
  end

  local protocol = tvb(offset + 17, 1):uint()
  local said = KINDS[kind] or string.format("kind %d", kind)
  local position = tvb(offset + 8, 4):le_uint()
  local ports = string.format("%d > %d", tvb(offset + 4, 4):le_uint(), tvb(offset, 4):le_uint())
  if kind == MESSAGE then
    at:add(f.first, message_offset == 0):set_generated()
    at:add(f.last, message_offset + bytes == whole_bytes):set_generated()
    if bytes > 0 and messages == 0 then at:add(f.data, tvb(offset + header, bytes)) end
    said = string.format("%s %s, position %d, ", said, ports, position)
    if part then
      said = said .. string.format("bytes %d to %d of %d", message_offset, message_offset + bytes, whole_bytes)
    elseif messages > 0 then
      said = said .. string.format("train of %d messages, %d bytes", messages, bytes)
    else
      said = said .. string.format("%d bytes", bytes)
    end
  elseif kind == CREDIT then
    said = string.format("%s %s, consumed before %d", said, ports, position)
  elseif kind == RETURNED or (kind == DATAGRAM and protocol ~= CONTROL) then
    if bytes > 0 then at:add(f.data, tvb(offset + header, bytes)) end
    local name = PROTOCOLS[protocol] or string.format("protocol %d", protocol)
    said = string.format("%s %s of %s, %d bytes", said, ports, name, bytes)
    if kind == RETURNED then
      at:add_le(f.returned, tvb(offset + 14, 2))
      said = said .. ", " .. (RETURNS[tvb(offset + 14, 2):le_uint()] or "unknown reason")
    end
  elseif kind == DATAGRAM then
    said = "Control"
    if bytes < 16 then
      at:add_proto_expert_info(e.malformed, "a control message is too short")
    else
      said = said .. " " .. dissect_control(tvb(offset + header, bytes), at)
    end
  end
  if not PROTOCOLS[protocol] and protocol < FIRST_FREE_PROTOCOL then
    at:add_proto_expert_info(e.unknown_protocol)
  end
  if kind < MESSAGE or kind > RETURNED or bit.band(word, 0xff000010) ~= 0 then
    at:add_proto_expert_info(e.malformed, "no such kind or flag")
  end
  if messages > 0 then
    local problem = train_problem(tvb, table_at, messages, bytes, word)
    if problem then
      at:add_proto_expert_info(e.malformed, problem)
    else
      dissect_train(tvb, table_at, offset + header, messages, position, at)
    end
  end
  if message_offset + bytes > whole_bytes then
    at:add_proto_expert_info(e.malformed, "the part ends behind its message")
  end
  at:set_text("Record: " .. said)
  return offset + header + padded(bytes), said
end

-- Has `braid decrypt` opened this sealed packet? It puts zeros in the place of the tag.
local function is_opened(tvb)
  local tag = tvb(tvb:len() - TAG_BYTES, TAG_BYTES):bytes()
  for i = 0, TAG_BYTES - 1 do
    if tag:get_index(i) ~= 0 then return false end
  end
  return true
end

local function dissect_records(tvb, offset, count, tree)
  local first_said
  for _ = 1, count do
    local after, said = dissect_record(tvb, offset, tree)
    if not after then
      tree:add_proto_expert_info(e.malformed, said)
      return said
    end
    first_said = first_said or said
    offset = after
  end
  if offset ~= tvb:len() then tree:add_proto_expert_info(e.malformed, "bytes behind the last record") end
  return first_said
end

-- Could it be one? What chance would not bring about.
local function looks_right(tvb)
  if tvb:len() < HEADER_BYTES then return false end
  local kind = tvb(1, 1):uint()
  local words = bit.band(tvb(3, 1):uint(), 0x7f)
  if tvb(0, 1):uint() ~= VERSION or not TYPES[kind] or words > MOST_SACK_WORDS then return false end
  if (tvb(2, 1):uint() > 0) ~= (kind == DATA) then return false end
  if tvb(12, 4):le_uint() == 0 and tvb(16, 4):le_uint() == 0 then return false end
  local after = tvb:len() - HEADER_BYTES - 8 * words
  if kind == HELLO then return after == 16 or after == 18 or after == 36 or after == 84 end
  if kind == DATA then return after >= WHOLE_RECORD_BYTES end
  if kind == CHALLENGE or kind == RESPONSE then
    return after == CHALLENGE_BYTES + SEAL_BYTES and seals[tvb(12, 8):bytes():tohex()] ~= nil
  end
  return after == 0 or (after == SEAL_BYTES and seals[tvb(12, 8):bytes():tohex()] ~= nil)
end

function braid.dissector(tvb, pinfo, root)
  if tvb:len() < HEADER_BYTES then return 0 end
  local whole_bytes = tvb:len()
  pinfo.cols.protocol = "braid"
  local tree = root:add(braid, tvb())
  local kind = tvb(1, 1):uint()
  local records = tvb(2, 1):uint()
  local words = bit.band(tvb(3, 1):uint(), 0x7f)
  local ack = tvb(32, 4):le_uint()

  tree:add_le(f.version, tvb(0, 1))
  tree:add_le(f.type, tvb(1, 1))
  tree:add_le(f.records, tvb(2, 1))
  tree:add_le(f.ack_at_once, tvb(3, 1))
  tree:add_le(f.sack_words, tvb(3, 1))
  tree:add_le(f.source_cluster, tvb(4, 2))
  tree:add_le(f.source_proxy, tvb(6, 1))
  tree:add_le(f.destination_proxy, tvb(7, 1))
  tree:add_le(f.destination_cluster, tvb(8, 2))
  tree:add_le(f.ack_held, tvb(10, 2))
  tree:add_le(f.sender_epoch, tvb(12, 8))
  tree:add_le(f.receiver_epoch, tvb(20, 8))
  tree:add_le(f.seq, tvb(28, 4))
  tree:add_le(f.ack, tvb(32, 4))
  tree:add_le(f.timestamp, tvb(36, 4))
  tree:add_le(f.timestamp_echo, tvb(40, 4))
  tree:add_le(f.window_packets, tvb(44, 2))
  tree:add_le(f.window_units, tvb(46, 2))
  tree:add(f.window_bytes, tvb(46, 2):le_uint() * WINDOW_UNIT_BYTES):set_generated()

  local said = string.format("%s %d.%d > %d.%d", TYPES[kind] or "Unknown type", tvb(4, 2):le_uint(), tvb(6, 1):uint(),
    tvb(8, 2):le_uint(), tvb(7, 1):uint())
  local offset = HEADER_BYTES
  local behind = 0
  if words > MOST_SACK_WORDS or tvb:len() < offset + 8 * words then
    tree:add_proto_expert_info(e.malformed, "the words of selective acknowledgement are cut off")
    return tvb:len()
  end
  for w = 0, words - 1 do
    local item = tree:add_le(f.sack, tvb(offset, 8))
    for _, number in ipairs(sacked_numbers(tvb(offset, 8):le_uint64(), ack + 1 + 64 * w)) do
      item:add(f.sacked, number):set_generated()
      behind = behind + 1
    end
    offset = offset + 8
  end

  if kind == DATA then said = said .. string.format(" seq=%d", tvb(28, 4):le_uint()) end
  said = said .. string.format(" ack=%d", ack)
  if behind > 0 then said = said .. string.format(" +%d", behind) end

  if kind == HELLO then
    if tvb:len() < offset + 16 then
      tree:add_proto_expert_info(e.malformed, "the hello is cut off")
    else
      tree:add_le(f.hash, tvb(offset, 8))
      tree:add_le(f.incarnation, tvb(offset + 8, 8))
      if tvb:len() >= offset + 18 then tree:add_le(f.wanted_port, tvb(offset + 16, 2)) end
      if tvb:len() >= offset + 36 then
        seals[tvb(12, 8):bytes():tohex()] = true
        tree:add(f.cipher, tvb(offset + 18, 1))
        tree:add(f.exchange, tvb(offset + 19, 1))
        said = said .. " sealed"
      end
    end
    pinfo.cols.info = said
    tree:append_text(", " .. said)
    return whole_bytes
  end

  -- Who says hello so seals the rest; without a hello in the capture it is taken for records.
  local is_sealed = seals[tvb(12, 8):bytes():tohex()] and tvb:len() >= offset + SEAL_BYTES
  if is_sealed and is_opened(tvb) then
    tree:add_le(f.number, tvb(tvb:len() - SEAL_BYTES, 8))
    tree:add(f.opened, true):set_generated()
    tvb = tvb(0, tvb:len() - SEAL_BYTES):tvb()
    is_sealed = false
  end
  if is_sealed then
    tree:add(f.sealed, tvb(offset, tvb:len() - offset - SEAL_BYTES))
    tree:add_le(f.number, tvb(tvb:len() - SEAL_BYTES, 8))
    said = said .. string.format(" sealed, %d bytes", tvb:len() - offset - SEAL_BYTES)
  elseif kind == DATA then
    local key = string.format("%s %s %d", tvb(12, 8):bytes():tohex(), tvb(20, 8):bytes():tohex(), tvb(28, 4):le_uint())
    first_frame[key] = first_frame[key] or pinfo.number
    if first_frame[key] ~= pinfo.number then
      tree:add(f.first_sent, first_frame[key]):set_generated()
      tree:add_proto_expert_info(e.resent)
      said = said .. " again"
    end
    local first_said = dissect_records(tvb, offset, records, tree)
    said = said .. string.format(" [%d] %s", records, first_said or "")
    if records > 1 then said = said .. ", …" end
  elseif (kind == CHALLENGE or kind == RESPONSE) and tvb:len() == offset + CHALLENGE_BYTES then
    tree:add_le(f.challenge, tvb(offset, CHALLENGE_BYTES))
  elseif tvb:len() ~= offset then
    tree:add_proto_expert_info(e.malformed, "bytes behind the header")
  end
  pinfo.cols.info = said
  tree:append_text(", " .. said)
  return whole_bytes
end

braid:register_heuristic("udp", function(tvb, pinfo, root)
  if not looks_right(tvb) then return false end
  braid.dissector(tvb, pinfo, root)
  return true
end)
DissectorTable.get("udp.port"):add_for_decode_as(braid)
