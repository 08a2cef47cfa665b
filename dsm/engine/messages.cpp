#include "dsm/engine/messages.h"

#include "base/check.h"
#include "dsm/engine/diff.h"

namespace braid::dsm {
namespace {

struct Form {
  std::size_t payload_min = 0;
  std::size_t payload_max = 0;
  std::size_t payload_unit = 1;
  std::size_t payload_lacks = 0;  // to a multiple of the unit, unless it is empty
  std::uint8_t format_max = 0;
  bool has_number = false;
};

constexpr Form form_of(PageLength length, Kind kind) {
  switch (kind) {
    case Kind::kPageRequest:
      return {.has_number = true};
    case Kind::kLockRequest:
      return {.format_max = 1};
    case Kind::kLockProbe:
    case Kind::kLockProbeReply:
    case Kind::kLockBusy:
      return {};
    case Kind::kLockGrant:
      return {.payload_max = kPlaceBytes, .payload_unit = kPlaceBytes};
    case Kind::kLockRecall:
      return {.format_max = 1, .has_number = true};
    case Kind::kPageReply:
      return {.payload_max = max_message_bytes(length) - kHeaderBytes,
              .payload_unit = length.bytes() + kVersionBytes,
              .payload_lacks = kVersionBytes,
              .format_max = 1,
              .has_number = true};
    case Kind::kDiff:
      return {.payload_max = max_diff_bytes(length), .format_max = 1, .has_number = true};
    case Kind::kInvalidate:
    case Kind::kInvalidateAck:
      return {.payload_max = (kMaxRunPages - 1) * kVersionBytes,
              .payload_unit = kVersionBytes,
              .format_max = kind == Kind::kInvalidateAck,
              .has_number = true};
    case Kind::kWriteNotice:
      return {.payload_min = kNoticePlaceBytes,
              .payload_max = kNoticePlaceBytes + (kMaxRunPages - 1) * kVersionBytes,
              .payload_unit = kVersionBytes,
              .format_max = 1,
              .has_number = true};
    case Kind::kDiffDone:
      return {.format_max = 1, .has_number = true};
    case Kind::kPageForward:
      return {.has_number = true};
    case Kind::kBarrierArrive:
    case Kind::kBarrierDepart:
      return {.payload_min = kBarrierValueBytes,
              .payload_max = kBarrierValueBytes + kPlaceBytes,
              .payload_unit = kPlaceBytes,
              .format_max = static_cast<std::uint8_t>(Reduction::kDisagreement),
              .has_number = true};
    case Kind::kSyncCall:
      return {.payload_min = kSyncOperandBytes,
              .payload_max = kSyncOperandBytes + kPlaceBytes,
              .payload_unit = kPlaceBytes,
              .format_max = static_cast<std::uint8_t>(kLastSyncOp),
              .has_number = true};
    case Kind::kSyncResult:
      return {.payload_min = kSyncValueBytes,
              .payload_max = kSyncValueBytes + kPlaceBytes,
              .payload_unit = kPlaceBytes,
              .format_max = 1,
              .has_number = true};
    case Kind::kAllocate:
    case Kind::kRegion:
      return {.payload_min = kHomesBytes, .payload_max = kHomesBytes, .has_number = true};
    case Kind::kAllocated:
      return {.has_number = true};
    case Kind::kRegionKnown:
      return {};
  }
  return {};
}

// Whether a payload of that length is empty, or of whole units.
constexpr bool whole(const Form& form, std::size_t length) {
  return length == 0 || (length + form.payload_lacks) % form.payload_unit == 0;
}

static_assert(kHeaderBytes + max_diff_bytes(PageLength()) <= min_room_bytes(PageLength()));

// The name of a message, and why its handler may refuse it, for a user.
struct Words {
  const char* what;
  const char* why;
};

constexpr Words words_of(Kind kind) {
  switch (kind) {
    case Kind::kPageRequest:
      return {"a request for pages",
              "there is no such page, or its sender has it already or may not request more"};
    case Kind::kPageReply:
      return {"a page", "this cluster has not requested it"};
    case Kind::kDiff:
      return {"changes of a page",
              "this cluster is not the page's home, or the last ones are not acknowledged, or they "
              "change bytes outside the page"};
    case Kind::kDiffDone:
      return {"the acknowledgement of changes of a page", "no changes of it are in flight to its sender"};
    case Kind::kInvalidate:
      return {"the invalidation of a page", "its sender is not the page's home, or waits for too many"};
    case Kind::kInvalidateAck:
      return {"the acknowledgement of an invalidation",
              "this cluster does not wait for it, or for another version"};
    case Kind::kLockRequest:
      return {"a request for a lock",
              "it is not managed here, or its sender has it or has requested it already"};
    case Kind::kLockGrant:
      return {"a lock's token", "this cluster has not requested it"};
    case Kind::kLockRecall:
      return {"the recall of a lock's token",
              "its sender does not manage it, or this cluster has not requested it, or it is recalled "
              "already, or no such cluster can be next"};
    case Kind::kLockProbe:
      return {"a lock's probe", "there is no such lock, or too many are unanswered"};
    case Kind::kLockProbeReply:
      return {"the reply to a lock's probe", "this cluster has not sent one there"};
    case Kind::kLockBusy:
      return {"the answer that a lock is taken", "there is no such lock"};
    case Kind::kBarrierArrive:
      return {"an arrival at a barrier",
              "there is no such barrier below this cluster, or it is not of that generation"};
    case Kind::kBarrierDepart:
      return {"a departure from a barrier",
              "this cluster does not wait there for its sender, or not in that generation"};
    case Kind::kSyncCall:
      return {"a call of a word, flag, semaphore, condition or gathering",
              "the variable is not here, or the compute node that calls has another call in progress"};
    case Kind::kSyncResult:
      return {"the result of a call of a word, flag, semaphore, condition or gathering",
              "no compute node waits for it"};
    case Kind::kAllocate:
      return {"a request for pages",
              "it is not for this cluster, or is invalid, or its compute node waits for "
              "others"};
    case Kind::kAllocated:
      return {"pages for a compute node", "it waits for none, or they are not there"};
    case Kind::kRegion:
      return {"the announcement of an allocation",
              "the pages are not the next ones, are in use, or do not fit"};
    case Kind::kRegionKnown:
      return {"the acknowledgement of an allocation", "this cluster does not wait for it"};
    case Kind::kWriteNotice:
      return {"a notice of writes",
              "there is no such page, or the protocol has none, or no message of that number can come"};
    case Kind::kPageForward:
      return {"a forwarded request for a page",
              "there is no such page, or the requesting cluster has it already or may not request more"};
  }
  return {"bytes that are not a message", "of no kind"};
}

}  // namespace

void write_header(MutableBytes room, const Header& header) {
  CHECK_GE(room.size(), kHeaderBytes);
  store(&room[0], static_cast<std::uint8_t>(header.kind));
  store(&room[1], header.format);
  store(&room[2], std::uint16_t{0});
  store(&room[4], header.id);
  store(&room[8], header.number);
}

void write_length(MutableBytes message, std::size_t bytes) {
  CHECK_LE(bytes, kMaxPackedBytes);
  store(&message[2], static_cast<std::uint16_t>(bytes));
}

Refusal refusal_of(ClusterId from, const Header& h, std::size_t bytes) {
  const auto [what, why] = words_of(h.kind);
  return {.from = from, .what = what, .id = h.id, .number = h.number, .bytes = bytes, .why = why};
}

std::size_t payload_room(PageLength length, const Header& header) {
  if (header.kind == Kind::kPageReply) return header.format != 0 ? 0 : reply_payload(length, 1);
  return header.kind == Kind::kDiff ? 0 : form_of(length, header.kind).payload_max;
}

bool can_acquire_by(const Header& header) {
  const Kind kind = header.kind;
  return kind == Kind::kLockGrant || kind == Kind::kBarrierArrive || kind == Kind::kBarrierDepart ||
         kind == Kind::kSyncCall || (kind == Kind::kSyncResult && header.format == 0);
}

bool has_place(const Header& header, ByteView payload) {
  return payload.size() != form_of(PageLength(), header.kind).payload_min;
}

std::optional<Message> parse(PageLength page_length, ByteView bytes) {
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  const auto kind = load<std::uint8_t>(&bytes[0]);
  if (kind == 0 || kind >= kKinds) return std::nullopt;
  Message message;
  message.header.kind = static_cast<Kind>(kind);
  message.header.format = load<std::uint8_t>(&bytes[1]);
  message.header.id = load<std::uint32_t>(&bytes[4]);
  message.header.number = load<std::uint32_t>(&bytes[8]);
  std::size_t end = bytes.size();
  if (const auto length = load<std::uint16_t>(&bytes[2]); length != 0) {
    if (length < kHeaderBytes || length >= bytes.size()) return std::nullopt;
    end = length;
  }
  message.payload = bytes.subspan(kHeaderBytes, end - kHeaderBytes);
  message.rest = bytes.subspan(end);

  const Form form = form_of(page_length, message.header.kind);
  const std::size_t length = message.payload.size();
  if (length < form.payload_min || length > form.payload_max || !whole(form, length)) return std::nullopt;
  if (message.header.format > form.format_max) return std::nullopt;
  if (!form.has_number && message.header.number != 0) return std::nullopt;
  return message;
}

std::size_t bytes_of_pages(PageLength length, ByteView messages) {
  std::size_t bytes = 0;
  while (!messages.empty()) {
    const std::optional<Message> message = parse(length, messages);
    if (!message) break;
    const Header& h = message->header;
    if (h.kind == Kind::kPageReply && h.format == 0)
      bytes += RunOfPages(length, h.number, message->payload).bytes.size();
    messages = message->rest;
  }
  return bytes;
}

}  // namespace braid::dsm
