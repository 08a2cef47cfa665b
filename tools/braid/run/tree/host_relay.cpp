#include "tools/braid/run/tree/host_relay.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace braid::cli {
namespace {

// How long it may take to end, and to end a command that it was told to kill.
constexpr Duration kEnd = 2_s;
// A relay that is silent for so long keeps the words of others back.
constexpr Duration kHeldUp = Liveness::kBeat * 4;

}  // namespace

class HostRelay::Relayed final : public HostCommand {
 public:
  Relayed(HostRelay& relay, std::size_t branch) : relay_(relay), branch_(branch) {}
  Result<void> start() override { return relay_.start(branch_); }
  bool is_started() const override { return branch().is_started; }
  void send(std::string_view bytes) override {
    if (!branch().end) relay_.send({{"do", "input"}, {"command", branch_}, {"bytes", bytes_value(bytes)}});
  }
  bool has_room() const override { return relay_.own_->has_room(); }
  void close_input() override {
    if (!branch().end) relay_.send({{"do", "end_input"}, {"command", branch_}});
  }
  void kill() override { relay_.kill(branch_); }
  // The relay does it.
  void watch(std::vector<pollfd>&, bool) const override {}
  void write_some() override {}
  std::string take_output() override { return std::exchange(relay_.branches_[branch_].output, {}); }
  bool take_end(const EndedChild&) override { return false; }
  const std::optional<std::string>& end() const override { return branch().end; }
  bool is_held_up(Instant now) const override { return relay_.is_held_up(now); }

 private:
  const Branch& branch() const { return relay_.branches_[branch_]; }

  HostRelay& relay_;
  const std::size_t branch_;
};

HostRelay::HostRelay(ChildProcesses& children, std::string host, std::unique_ptr<HostCommand> own)
    : children_(children),
      host_(std::move(host)),
      own_(std::move(own)),
      first_words_(kRelayGreeting, host_) {}

std::unique_ptr<HostCommand> HostRelay::command(const std::string& host, std::vector<std::string> words) {
  branches_.push_back({.host = host, .words = std::move(words), .output = {}, .end = {}});
  return std::make_unique<Relayed>(*this, branches_.size() - 1);
}

Result<void> HostRelay::start(std::size_t branch) {
  Branch& b = branches_[branch];
  if (!std::exchange(is_asked_for_, true)) {
    if (const Result<void> done = own_->start(); !done) return done;
    liveness_.start(monotonic_now(), kPatience);
  }
  b.is_asked_for = true;
  send({{"do", "start"}, {"command", branch}, {"words", b.words}, {"prefix", fmt::format("[{}] ", b.host)}});
  return {};
}

void HostRelay::kill(std::size_t branch) {
  if (branches_[branch].end || is_over_) return;
  send({{"do", "kill"}, {"command", branch}});
  if (kill_by_ == Instant::never()) kill_by_ = monotonic_now() + kEnd;
}

bool HostRelay::is_held_up(Instant now) const {
  return !is_over_ && (now - heard_ > kHeldUp || own_->is_held_up(now));
}

Instant HostRelay::next_deadline() const {
  if (!is_asked_for_ || own_->end()) return Instant::never();
  return earlier(is_over_ ? Instant::never() : beat_at_, earlier(kill_by_, close_by_));
}

void HostRelay::turn(Instant now, bool is_read) {
  if (!is_asked_for_) return;
  if (now >= beat_at_ && !is_over_) {
    send({{"do", "beat"}});
    beat_at_ = now + Liveness::kBeat;
  }
  if (is_read || own_->end()) read_some(now);
  own_->write_some();
  if (own_->end()) return lose(*own_->end());
  if (!is_read) {
    liveness_.on_inattention(now);
    heard_ = now;
  }
  look_for_life(now);
  if (now >= kill_by_) {
    kill_by_ = Instant::never();
    lose("it does not end what it is told to kill");
  }
  close_unused(now);
}

void HostRelay::look_for_life(Instant now) {
  if (is_over_) return;
  if (!own_->is_started()) {
    liveness_.start(now, kPatience);
    heard_ = now;
    return;
  }
  if (!first_words_.are_over()) heard_ = now;
  if (!liveness_.is_lost(now) || own_->is_held_up(now)) return;
  lose(first_words_.are_over() ? text_of_silence() : text_of_no_answer());
}

// When all that it was asked for has ended it is not needed any more.
void HostRelay::close_unused(Instant now) {
  const bool is_used = std::any_of(branches_.begin(), branches_.end(),
                                   [](const Branch& b) { return b.is_asked_for && !b.end; });
  if (!is_used && !is_closing_ && !is_over_) {
    is_closing_ = true;
    own_->close_input();
    kill_by_ = Instant::never();
    close_by_ = now + kEnd;
  }
  if (now >= close_by_) {
    close_by_ = Instant::never();
    own_->kill();
  }
}

void HostRelay::lose(const std::string& why) {
  if (std::exchange(is_over_, true)) return;
  if (!first_words_.are_over()) first_words_.end(children_.output());
  for (Branch& b : branches_) {
    if (b.end) continue;
    b.end = b.host == host_ ? why : fmt::format("its relay, host {}, is lost: {}", host_, why);
  }
  own_->kill();
}

void HostRelay::read_some(Instant now) {
  for (std::string bytes = own_->take_output(); !bytes.empty(); bytes = own_->take_output()) {
    if (is_over_) continue;
    try {
      reader_.feed(bytes);
      if (!first_words_.take(reader_, children_.output())) continue;
      liveness_.on_word(now);
      heard_ = now;
      while (const std::optional<Message> message = reader_.next()) take(*message);
    } catch (const Message::exception& problem) {
      lose(fmt::format("what it said is no message of a braid-node: {}", problem.what()));
    }
  }
}

HostRelay::Branch& HostRelay::branch_of(const Message& message) {
  const auto number = message.at("command").get<std::size_t>();
  if (number >= branches_.size() || !branches_[number].is_asked_for || branches_[number].end)
    refuse_message("it names a command that was not asked for, or has ended");
  return branches_[number];
}

void HostRelay::take(const Message& message) {
  const std::string is = message.at("is").get<std::string>();
  if (is == "started") {
    branch_of(message).is_started = true;
  } else if (is == "output") {
    branch_of(message).output += bytes_of(message.at("bytes"));
  } else if (is == "ended" || is == "failed") {
    branch_of(message).end = message.at("text").get<std::string>();
  } else if (is == "errors") {
    children_.output().print(2, errors_.take(bytes_of(message.at("bytes"))));
  }
}

}  // namespace braid::cli
