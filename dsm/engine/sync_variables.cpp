#include "dsm/engine/sync_variables.h"

#include <fmt/core.h>

#include "base/check.h"

namespace braid::dsm {
namespace {

enum class Type : std::uint8_t { kWord, kFlag, kSemaphore, kCondition, kGathering };

constexpr Type type_of(SyncOp op) {
  switch (op) {
    case SyncOp::kWordLoad:
    case SyncOp::kWordStore:
    case SyncOp::kWordExchange:
    case SyncOp::kWordAdd:
    case SyncOp::kWordCompareExchange:
      return Type::kWord;
    case SyncOp::kFlagSet:
    case SyncOp::kFlagClear:
    case SyncOp::kFlagWait:
      return Type::kFlag;
    case SyncOp::kSemaphorePost:
    case SyncOp::kSemaphoreWait:
    case SyncOp::kSemaphoreSet:
    case SyncOp::kSemaphoreTry:
      return Type::kSemaphore;
    case SyncOp::kConditionWait:
    case SyncOp::kConditionSignal:
    case SyncOp::kConditionBroadcast:
      return Type::kCondition;
    case SyncOp::kGather:
      return Type::kGathering;
  }
  return Type::kWord;
}

constexpr const char* name_of(Type type) {
  switch (type) {
    case Type::kWord:
      return "word";
    case Type::kFlag:
      return "flag";
    case Type::kSemaphore:
      return "semaphore";
    case Type::kCondition:
      return "condition";
    case Type::kGathering:
      return "barrier";
  }
  return "";
}

// "for thread 3 to end"; empty: the call's own variable is what the node waits for.
std::string name_of(const WaitedFor& waits_for) {
  const std::uint64_t what = waits_for.what;
  switch (waits_for.kind) {
    case WaitedFor::Kind::kVariable:
      return {};
    case WaitedFor::Kind::kThreadEnd:
      return fmt::format("for thread {} to end", what);
    case WaitedFor::Kind::kAllThreadEnds:
      return "for all other threads to end";
    case WaitedFor::Kind::kThreadToRun:
      return "for a thread to run";
    case WaitedFor::Kind::kBarrier:
      return fmt::format("for others to come to the barrier at {:#x}", what);
    case WaitedFor::Kind::kMutex:
      return fmt::format("for the mutex at {:#x}", what);
    case WaitedFor::Kind::kSpinLock:
      return fmt::format("for the spin lock at {:#x}", what);
    case WaitedFor::Kind::kReadWriteLock:
      return fmt::format("for the read-write lock at {:#x}", what);
    case WaitedFor::Kind::kSemaphore:
      return fmt::format("for the semaphore at {:#x} to be posted", what);
    case WaitedFor::Kind::kCondition:
      return fmt::format("for a signal of the condition at {:#x}", what);
    case WaitedFor::Kind::kOnce:
      return fmt::format("for the end of the function of pthread_once() at {:#x}", what);
    case WaitedFor::Kind::kProcessEnd:
      return "for a created process to end";
    case WaitedFor::Kind::kFreeNode:
      return "for a created process to end, because CREATE found no free compute node: start the program with more, or call "
             "WAIT_FOR_END first";
    case WaitedFor::Kind::kProcessToRun:
      return "for a process to run";
  }
  return {};
}

// The format of a kSyncResult.
constexpr std::uint8_t kResult = 0;
constexpr std::uint8_t kRegistered = 1;

}  // namespace

SyncVariables::SyncVariables(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages,
                             Locks& locks, const ObjectAddresses& addresses)
    : config_(config),
      addresses_(addresses),
      self_(config.cluster),
      outbox_(outbox),
      nodes_(nodes),
      pages_(pages),
      locks_(locks),
      words_(config.words / config.clusters + 1),
      flags_(config.flags / config.clusters + 1),
      semaphores_(config.semaphores / config.clusters + 1),
      conditions_(config.conditions / config.clusters + 1),
      slots_(std::size_t{config.clusters} * config.compute_nodes) {}

std::vector<SyncVariables::Variable>& SyncVariables::kept(SyncOp op) {
  switch (type_of(op)) {
    case Type::kWord:
      return words_;
    case Type::kFlag:
      return flags_;
    case Type::kSemaphore:
      return semaphores_;
    case Type::kCondition:
      return conditions_;
    case Type::kGathering:
      break;  // all are at addresses
  }
  return words_;
}

std::uint32_t SyncVariables::count_of(SyncOp op) const {
  switch (type_of(op)) {
    case Type::kWord:
      return config_.words;
    case Type::kFlag:
      return config_.flags;
    case Type::kSemaphore:
      return config_.semaphores;
    case Type::kCondition:
      return config_.conditions;
    case Type::kGathering:
      return 0;
  }
  return 0;
}

// SY-8
SyncVariables::Variable& SyncVariables::variable(SyncOp op, std::uint32_t id) {
  if (id < count_of(op)) return kept(op)[id / config_.clusters];
  auto& table = at_addresses_[static_cast<std::size_t>(type_of(op))];
  Variable* const v = table.find(id);
  return v != nullptr ? *v : table.add(id, {});
}

void SyncVariables::tidy(SyncOp op, std::uint32_t id) {
  if (id < count_of(op)) return;
  auto& table = at_addresses_[static_cast<std::size_t>(type_of(op))];
  const Variable* const v = table.find(id);
  if (v != nullptr && v->value == 0 && v->waiting.first == kEnd) table.remove(id);
}

// --- The node's cluster

void SyncVariables::begin(std::uint16_t node, const SyncCall& call) {
  CHECK(is_object(config_, call.id, count_of(call.op)));
  CHECK(call.op != SyncOp::kConditionWait || locks_.held_by(call.lock, node));
  ComputeNode& n = nodes_[node];
  n.wait = Wait::kSync;
  n.sync = call.id;
  n.call = call;
  n.call_registered = n.call_answered = n.call_sent = false;
  if (call.releases)  // SY-2
    pages_.begin_release({.what = ReleaseFor::What::kSync, .id = node});
  else
    ask(node);
}

void SyncVariables::released(std::uint16_t node) {
  ask(node);
}

void SyncVariables::ask(std::uint16_t node) {
  const SyncCall& call = nodes_[node].call;
  outbox_.push(
      home(call.op, call.id),
      {.kind = Kind::kSyncCall, .format = static_cast<std::uint8_t>(call.op), .id = call.id, .number = node});
}

bool SyncVariables::on_result(ClusterId from, const Header& h, ByteView value) {
  if (h.number >= nodes_.size()) return false;
  const auto node = static_cast<std::uint16_t>(h.number);
  ComputeNode& n = nodes_[node];
  if (n.wait != Wait::kSync || !n.call_sent || n.call.id != h.id || from != home(n.call.op, h.id))
    return false;
  if (h.format == kRegistered) {
    if (n.call.op != SyncOp::kConditionWait || n.call_registered) return false;
    n.call_registered = true;
    locks_.unlock(node, n.call.lock);  // SY-5
  } else {
    if (n.call_answered) return false;
    n.call_answered = true;
    n.result = load<std::uint64_t>(value.data());
  }
  finish_call(node);
  return true;
}

// The answers to a wait for a condition may come in either order.
void SyncVariables::finish_call(std::uint16_t node) {
  ComputeNode& n = nodes_[node];
  if (!n.call_answered) return;
  if (n.call.op != SyncOp::kConditionWait) {
    n.wait = Wait::kNothing;
    return;
  }
  if (!n.call_registered) return;
  n.wait = Wait::kNothing;
  (void)locks_.lock(node, n.call.lock);  // SY-6: the wait ends when the node has the lock again
}

// --- The home. SY-1: one operation after the other.

bool SyncVariables::on_call(ClusterId from, const Header& h, ByteView operands) {
  const auto op = static_cast<SyncOp>(h.format);
  if (!is_object(config_, h.id, count_of(op)) || home(op, h.id) != self_ || h.number >= config_.compute_nodes)
    return false;
  const std::uint32_t slot = slot_of(from, h.number);
  if (slots_[slot].busy()) return false;  // SY-4
  const auto first = load<std::uint64_t>(operands.data());
  const auto second = load<std::uint64_t>(operands.data() + sizeof first);
  carry_out(op, h.id, slot, first, second);
  tidy(op, h.id);
  return true;
}

void SyncVariables::carry_out(SyncOp op, std::uint32_t id, std::uint32_t slot, std::uint64_t first,
                              std::uint64_t second) {
  Variable& v = variable(op, id);
  const std::uint64_t before = v.value;
  switch (op) {
    case SyncOp::kWordLoad:
      break;
    case SyncOp::kWordStore:
    case SyncOp::kWordExchange:
      v.value = first;
      break;
    case SyncOp::kWordAdd:
      v.value += first;
      break;
    case SyncOp::kWordCompareExchange:
      if (v.value == first) v.value = second;
      break;
    case SyncOp::kFlagSet:
      v.value = 1;
      while (wake_first(v, id)) continue;
      break;
    case SyncOp::kFlagClear:
      v.value = 0;
      break;
    case SyncOp::kFlagWait:
      if (v.value == 0) return enqueue(v, slot);
      break;
    case SyncOp::kSemaphorePost:
      for (v.value += first; v.value > 0 && wake_first(v, id);) --v.value;
      break;
    case SyncOp::kSemaphoreWait:
      if (v.value == 0) return enqueue(v, slot);
      --v.value;
      break;
    case SyncOp::kSemaphoreSet:
      for (v.value = first; v.value > 0 && wake_first(v, id);) --v.value;
      break;
    case SyncOp::kSemaphoreTry:
      if (v.value > 0) --v.value;
      break;
    case SyncOp::kGather:
      if (gather(v, id, slot, first)) return;
      return answer(slot, id, 1);
    case SyncOp::kConditionWait:
      enqueue(v, slot);
      slots_[slot].registers = true;  // SY-5
      return send_result(slot, id, kRegistered);
    case SyncOp::kConditionSignal:
      (void)wake_first(v, id);
      break;
    case SyncOp::kConditionBroadcast:
      while (wake_first(v, id)) continue;
      break;
  }
  answer(slot, id, before);
}

// SY-7. False: other nodes wait there for another number.
bool SyncVariables::gather(Variable& v, std::uint32_t id, std::uint32_t slot, std::uint64_t count) {
  if (v.value != 0 && v.value != count) return false;
  if (length(v) + 1 < count) {
    v.value = count;
    enqueue(v, slot);
    return true;
  }
  v.value = 0;
  while (wake_first(v, id)) continue;
  answer(slot, id, 0);
  return true;
}

std::size_t SyncVariables::length(const Variable& v) const {
  std::size_t waiting = 0;
  for (std::uint32_t slot = v.waiting.first; slot != kEnd; slot = slots_[slot].next) ++waiting;
  return waiting;
}

void SyncVariables::answer(std::uint32_t slot, std::uint32_t id, std::uint64_t value) {
  slots_[slot].value = value;
  slots_[slot].answered = true;
  send_result(slot, id, kResult);
}

void SyncVariables::send_result(std::uint32_t slot, std::uint32_t id, std::uint8_t format) {
  outbox_.push(cluster_of(config_, slot),
               {.kind = Kind::kSyncResult, .format = format, .id = id, .number = local_node(config_, slot)});
}

void SyncVariables::enqueue(Variable& v, std::uint32_t slot) {
  slots_[slot].waiting = true;
  slots_[slot].next = kEnd;
  (v.waiting.first == kEnd ? v.waiting.first : slots_[v.waiting.last].next) = slot;
  v.waiting.last = slot;
}

// SY-3: in the order in which they came. False when none waits.
bool SyncVariables::wake_first(Variable& v, std::uint32_t id) {
  const std::uint32_t slot = v.waiting.first;
  if (slot == kEnd) return false;
  v.waiting.first = slots_[slot].next;
  if (v.waiting.first == kEnd) v.waiting.last = kEnd;
  slots_[slot].waiting = false;
  answer(slot, id, 0);
  return true;
}

std::size_t SyncVariables::write(ClusterId to, const Header& header, MutableBytes payload) {
  if (header.kind == Kind::kSyncCall) {
    ComputeNode& n = nodes_[header.number];
    n.call_sent = true;
    store(payload.data(), n.call.first);
    store(payload.data() + sizeof n.call.first, n.call.second);
    return kSyncOperandBytes;
  }
  Slot& s = slots_[slot_of(to, header.number)];
  (header.format == kRegistered ? s.registers : s.answered) = false;
  store(payload.data(), header.format == kRegistered ? std::uint64_t{0} : s.value);
  return sizeof s.value;
}

void SyncVariables::check_queue(const Variable& v, std::size_t* queued) const {
  CHECK_EQ(v.waiting.first == kEnd, v.waiting.last == kEnd);
  for (std::uint32_t slot = v.waiting.first; slot != kEnd; slot = slots_[slot].next) {
    CHECK(slots_[slot].waiting && !slots_[slot].answered);
    CHECK(slots_[slot].next != kEnd || slot == v.waiting.last);
    CHECK_LE(++*queued, slots_.size());
  }
}

void SyncVariables::describe(StateSink& sink) const {
  for (const std::vector<Variable>* all : {&words_, &flags_, &semaphores_, &conditions_})
    for (const Variable& v : *all) {
      sink.value(v.value);
      for (std::uint32_t slot = v.waiting.first; slot != kEnd; slot = slots_[slot].next) sink.value(slot);
      sink.value(kEnd);
    }
  for (const auto& table : at_addresses_)
    for (const std::uint32_t id : table.numbers()) {
      const Variable& v = *table.find(id);
      sink.values(id, v.value);
      for (std::uint32_t slot = v.waiting.first; slot != kEnd; slot = slots_[slot].next) sink.value(slot);
      sink.value(kEnd);
    }
  for (const Slot& s : slots_) sink.values(s.waiting, s.registers, s.answered, s.answered ? s.value : 0);
}

std::string SyncVariables::explain(const ComputeNode& node) const {
  if (std::string text = name_of(node.call.waits_for); !text.empty()) return text;
  const SyncOp op = node.call.op;
  const auto what = [&]() -> const char* {
    switch (op) {
      case SyncOp::kFlagWait:
        return "for {} to be set";
      case SyncOp::kSemaphoreWait:
        return "for {} to be posted";
      case SyncOp::kConditionWait:
        return node.call_registered ? "for a signal of {}" : "to be in the queue of {}";
      case SyncOp::kGather:
        return "for others to come to {}";
      case SyncOp::kWordLoad:
      case SyncOp::kWordStore:
      case SyncOp::kWordExchange:
      case SyncOp::kWordAdd:
      case SyncOp::kWordCompareExchange:
      case SyncOp::kFlagSet:
      case SyncOp::kFlagClear:
      case SyncOp::kSemaphorePost:
      case SyncOp::kSemaphoreSet:
      case SyncOp::kSemaphoreTry:
      case SyncOp::kConditionSignal:
      case SyncOp::kConditionBroadcast:
        return "for an answer about {}";
    }
    return "for {}";
  };
  const std::string name = name_of_object(addresses_, name_of(type_of(op)), node.call.id, count_of(op));
  return fmt::format("{}, which is at cluster {}", fmt::format(fmt::runtime(what()), name),
                     home(op, node.call.id).value());
}

void SyncVariables::check() const {
  std::size_t queued = 0;
  const auto check_one = [&](Type type, const Variable& v) {
    check_queue(v, &queued);
    switch (type) {
      case Type::kWord:
        CHECK_EQ(v.waiting.first, kEnd);
        break;
      case Type::kFlag:  // no node waits for a set flag
      case Type::kSemaphore:
        CHECK(v.value == 0 || v.waiting.first == kEnd);
        break;
      case Type::kCondition:
        break;
      case Type::kGathering:
        CHECK(length(v) < v.value);
        break;
    }
  };
  for (const Variable& v : words_) check_one(Type::kWord, v);
  for (const Variable& v : flags_) check_one(Type::kFlag, v);
  for (const Variable& v : semaphores_) check_one(Type::kSemaphore, v);
  for (const Variable& v : conditions_) check_one(Type::kCondition, v);
  for (std::size_t i = 0; i < at_addresses_.size(); ++i)
    at_addresses_[i].for_each([&](std::uint32_t, const Variable& v) {
      check_one(static_cast<Type>(i), v);
      CHECK(v.value != 0 || v.waiting.first != kEnd);
    });
  for (const Slot& s : slots_) queued -= s.waiting;
  CHECK_EQ(queued, 0u);  // a slot waits in one queue
}

}  // namespace braid::dsm
