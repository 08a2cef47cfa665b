// No wake-up is lost: the order of steps that base/wake_word.h gives the two sides, on a model of a processor that
// delays stores, under every interleaving. Each thread has a FIFO buffer of stores that others do not see yet (total
// store order); a load takes the thread's own last store, or else the memory.
//
// The steps are recorded from the templates that the threads run. A step that is left out or moved must make the
// exploration find a sleeper that waits although something was published, and nobody who will wake it.
#include "base/wake_word.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/clock.h"

namespace braid {
namespace {

// ---------------------------------------------------------------- the steps

enum class Step : std::uint8_t {
  // a waker's
  kPublish,
  kOrder,
  kSeeAsleep,
  kMarkRung,
  kWake,
  // the sleeper's
  kAnnounce,
  kBarrier,
  kLook,
  kWait,
  kWithdraw,
};
using Steps = std::vector<Step>;

struct WakerRecorder {
  bool is_asleep;
  Steps& steps;
  void publish() { steps.push_back(Step::kPublish); }
  void order() { steps.push_back(Step::kOrder); }
  bool asleep() {
    steps.push_back(Step::kSeeAsleep);
    return is_asleep;
  }
  void mark_rung() { steps.push_back(Step::kMarkRung); }
  void wake() { steps.push_back(Step::kWake); }
};
struct SleeperRecorder {
  bool finds_work;
  Steps& steps;
  void announce() { steps.push_back(Step::kAnnounce); }
  void barrier() { steps.push_back(Step::kBarrier); }
  bool look() {
    steps.push_back(Step::kLook);
    return finds_work;
  }
  void wait() { steps.push_back(Step::kWait); }
  void withdraw() { steps.push_back(Step::kWithdraw); }
};

// The steps of each side, by the answer of its look: [1] asleep, or work found.
struct Programs {
  std::array<Steps, 2> waker;
  std::array<Steps, 2> sleeper;
};

Programs recorded() {
  Programs p;
  for (const bool answer : {false, true}) {
    publish_and_wake(WakerRecorder{answer, p.waker[answer]});
    sleep_until_woken(SleeperRecorder{answer, p.sleeper[answer]});
  }
  return p;
}

Programs without(Step step, Programs p) {
  for (auto* side : {&p.waker, &p.sleeper})
    for (Steps& steps : *side) std::erase(steps, step);
  return p;
}

Programs swapped(Step a, Step b, Programs p) {
  for (auto* side : {&p.waker, &p.sleeper})
    for (Steps& steps : *side)
      for (Step& s : steps) s = s == a ? b : s == b ? a : s;
  return p;
}

// ---------------------------------------------------------------- the machine

struct Setting {
  unsigned wakers = 1;    // one word and one ring each
  unsigned messages = 2;  // that each publishes
  // The wakers' and the sleeper's part in the kernel's barrier: a waker that has not joined executes a fence of its
  // own instead, in its kOrder step.
  bool wakers_join = true;
  bool wakers_fence = false;
  // All wakers share a word, as proxies and the control plane share a worker's.
  bool one_word = false;
  // The waker looks at a place of its own instead of the word, and whether the sleeper has taken all (a shm wire).
  bool separate_flag = false;
};

constexpr unsigned kMaxWakers = 2;
constexpr unsigned kThreads = kMaxWakers + 1;
constexpr unsigned kSleeper = kMaxWakers;
constexpr unsigned kBuffer = 8;

// Places in memory: by waker, what it has published, its word, its flag, and what the sleeper has taken of it.
constexpr unsigned kPlaces = 4 * kMaxWakers;
constexpr std::uint8_t published(unsigned w) {
  return static_cast<std::uint8_t>(w);
}
constexpr std::uint8_t word(unsigned w) {
  return static_cast<std::uint8_t>(kMaxWakers + w);
}
constexpr std::uint8_t flag(unsigned w) {
  return static_cast<std::uint8_t>(2 * kMaxWakers + w);
}
constexpr std::uint8_t taken(unsigned w) {
  return static_cast<std::uint8_t>(3 * kMaxWakers + w);
}

constexpr std::uint8_t kAwake = 0;
constexpr std::uint8_t kAsleep = 1;
constexpr std::uint8_t kRung = 2;

// Plain bytes: two states are the same if they are equal.
struct State {
  struct Thread {
    std::uint8_t stores = 0;                         // in the buffer, the oldest first
    std::array<std::uint8_t, 2 * kBuffer> buffer{};  // place, value
    std::uint8_t step = 0;
    std::uint8_t part = 0;    // of a step that takes several
    std::uint8_t answer = 0;  // of its look: which program it is in
  };
  std::array<std::uint8_t, kPlaces> memory{};
  std::array<Thread, kThreads> threads{};
  std::array<std::uint8_t, kMaxWakers> sent{};  // by each waker
  std::array<std::uint8_t, kMaxWakers> got{};   // by the sleeper, of each
  std::uint8_t fenced = 0;                      // threads that have executed the barrier's fence
  std::uint8_t waiting = 0;                     // the sleeper waits in the kernel
};
static_assert(std::has_unique_object_representations_v<State>);

class Exploration {
 public:
  enum class Until : std::uint8_t { kTheEnd, kFirstLostWake };
  Exploration(const Setting& setting, const Programs& programs, Until until = Until::kTheEnd)
      : setting_(setting), programs_(programs) {
    visit(State{});
    while (!open_.empty() && (until == Until::kTheEnd || lost_ == 0)) {
      const State s = open_.front();
      open_.pop_front();
      expand(s);
    }
  }

  std::size_t states() const { return seen_.size(); }
  std::size_t lost_wakes() const { return lost_; }
  std::size_t slept_in_the_end() const { return slept_; }

 private:
  void visit(const State& s) {
    if (seen_.emplace(reinterpret_cast<const char*>(&s), sizeof s).second) open_.push_back(s);
  }

  void expand(const State& s) {
    bool moved = false;
    for (unsigned t = 0; t < kThreads; ++t) {
      if (t < kMaxWakers && t >= setting_.wakers) continue;
      if (s.threads[t].stores > 0) {
        State next = s;
        drain_one(next, t);
        visit(next);
        moved = true;
      }
      State next = s;
      if (t == kSleeper ? step_sleeper(next) : step_waker(next, t)) {
        visit(next);
        moved = true;
      }
    }
    if (moved) return;
    // Nothing moves any more.
    EXPECT_TRUE(s.waiting);
    ++slept_;
    for (unsigned w = 0; w < setting_.wakers; ++w)
      if (s.got[w] != setting_.messages) {
        ++lost_;
        break;
      }
  }

  // --- memory
  static void drain_one(State& s, unsigned t) {
    State::Thread& thread = s.threads[t];
    s.memory[thread.buffer[0]] = thread.buffer[1];
    std::copy(thread.buffer.begin() + 2, thread.buffer.end(), thread.buffer.begin());
    thread.buffer[2 * kBuffer - 2] = thread.buffer[2 * kBuffer - 1] = 0;
    --thread.stores;
  }
  static void fence(State& s, unsigned t) {
    while (s.threads[t].stores > 0) drain_one(s, t);
  }
  // False: the buffer is full, and has to drain first.
  static bool store(State& s, unsigned t, std::uint8_t place, std::uint8_t value) {
    State::Thread& thread = s.threads[t];
    if (thread.stores == kBuffer) return false;
    thread.buffer[2 * thread.stores] = place;
    thread.buffer[2 * thread.stores + 1] = value;
    ++thread.stores;
    return true;
  }
  static std::uint8_t load(const State& s, unsigned t, std::uint8_t place) {
    const State::Thread& thread = s.threads[t];
    for (unsigned i = thread.stores; i-- > 0;)
      if (thread.buffer[2 * i] == place) return thread.buffer[2 * i + 1];
    return s.memory[place];
  }
  std::uint8_t word_of(unsigned waker) const { return word(setting_.one_word ? 0 : waker); }

  // --- wakers
  bool step_waker(State& s, unsigned t) const {
    State::Thread& thread = s.threads[t];
    const Steps& steps = programs_.waker[thread.answer];
    if (thread.step == steps.size()) {  // the next message
      if (s.sent[t] == setting_.messages) return false;
      thread.step = thread.answer = 0;
      return step_waker(s, t);
    }
    switch (steps[thread.step]) {
      case Step::kPublish:
        if (s.sent[t] == setting_.messages) return false;
        if (!store(s, t, published(t), static_cast<std::uint8_t>(s.sent[t] + 1))) return false;
        ++s.sent[t];
        break;
      case Step::kOrder:
        if (setting_.wakers_fence) fence(s, t);
        break;
      case Step::kSeeAsleep:
        thread.answer = sees_asleep(s, t) ? 1 : 0;
        break;
      case Step::kMarkRung:
        if (!store(s, t, word_of(t), kRung)) return false;
        break;
      case Step::kWake:
        // The kernel's own fence, before it looks for waiters.
        fence(s, t);
        s.waiting = 0;
        break;
      default:
        ADD_FAILURE() << "no step of a waker's";
    }
    ++thread.step;
    return true;
  }
  bool sees_asleep(const State& s, unsigned t) const {
    if (!setting_.separate_flag) return load(s, t, word_of(t)) == kAsleep;
    return load(s, t, flag(t)) == kAsleep && load(s, t, taken(t)) != s.sent[t];
  }

  // --- the sleeper, which sleeps over and over
  bool step_sleeper(State& s) const {
    if (s.waiting) return false;
    State::Thread& thread = s.threads[kSleeper];
    if (thread.step == programs_.sleeper[thread.answer].size()) thread.step = thread.answer = 0;
    const Steps& steps = programs_.sleeper[thread.answer];
    bool done = true;
    switch (steps[thread.step]) {
      case Step::kAnnounce:
        if (!store_words(s, kAsleep, &done)) return false;
        break;
      case Step::kWithdraw:
        if (!store_words(s, kAwake, &done)) return false;
        break;
      case Step::kBarrier:
        done = execute_barrier(s);
        break;
      case Step::kLook:
        if (!look(s, &done)) return false;
        break;
      case Step::kWait:
        fence(s, kSleeper);
        s.waiting = words_are_asleep(s) ? 1 : 0;
        break;
      default:
        ADD_FAILURE() << "no step of the sleeper's";
    }
    if (!done) return true;
    thread.part = 0;
    ++thread.step;
    return true;
  }
  // A store for each part: the words, then the flags.
  bool store_words(State& s, std::uint8_t value, bool* done) const {
    State::Thread& thread = s.threads[kSleeper];
    const unsigned words = setting_.one_word ? 1 : setting_.wakers;
    const unsigned all = words + (setting_.separate_flag ? setting_.wakers : 0);
    const std::uint8_t place = thread.part < words ? word(thread.part) : flag(thread.part - words);
    if (!store(s, kSleeper, place, value)) return false;
    *done = ++thread.part == all;
    return true;
  }
  // Its own fence, then those of the other threads, in any order with what else happens; here waker by waker.
  bool execute_barrier(State& s) const {
    State::Thread& thread = s.threads[kSleeper];
    if (thread.part == 0) fence(s, kSleeper);
    if (setting_.wakers_join && thread.part < setting_.wakers) fence(s, thread.part);
    return ++thread.part >= setting_.wakers;
  }
  // Ring by ring. On a wire it first tells what it took at its look before.
  bool look(State& s, bool* done) const {
    State::Thread& thread = s.threads[kSleeper];
    const unsigned w = thread.part;
    if (setting_.separate_flag && !store(s, kSleeper, taken(w), s.got[w])) return false;
    const std::uint8_t there = load(s, kSleeper, published(w));
    if (there != s.got[w]) {
      s.got[w] = there;
      thread.answer = 1;
    }
    *done = ++thread.part == setting_.wakers;
    return true;
  }
  bool words_are_asleep(const State& s) const {
    const unsigned words = setting_.one_word ? 1 : setting_.wakers;
    for (unsigned w = 0; w < words; ++w)
      if (s.memory[word(w)] != kAsleep) return false;
    return true;
  }

  const Setting setting_;
  const Programs programs_;
  std::unordered_set<std::string> seen_;
  std::deque<State> open_;
  std::size_t lost_ = 0;
  std::size_t slept_ = 0;
};

// Every kind of word that a proxy sleeps on.
const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {.wakers = 1, .messages = 3},
      {.wakers = 2, .messages = 2},
      {.wakers = 2, .messages = 1, .one_word = true},
      {.wakers = 2, .messages = 2, .one_word = true},
      {.wakers = 1, .messages = 3, .separate_flag = true},
      {.wakers = 2, .messages = 1, .separate_flag = true},
  };
  return all;
}

TEST(WakeOrder, NoWakeIsLostInAnyInterleaving) {
  const Programs programs = recorded();
  std::size_t states = 0;
  for (const Setting& setting : settings()) {
    const Exploration all(setting, programs);
    EXPECT_EQ(all.lost_wakes(), 0u) << setting.wakers << " wakers, " << setting.messages << " messages";
    EXPECT_GT(all.slept_in_the_end(), 0u);
    states += all.states();
  }
  ::printf("%zu states\n", states);
}

bool loses_a_wake(const Setting& setting, const Programs& programs) {
  return Exploration(setting, programs, Exploration::Until::kFirstLostWake).lost_wakes() > 0;
}

TEST(WakeOrder, WakerThatCannotJoinTheBarrierFencesItself) {
  for (Setting setting : settings()) {
    setting.wakers_join = false;
    setting.wakers_fence = true;
    EXPECT_FALSE(loses_a_wake(setting, recorded()));
    setting.wakers_fence = false;
    EXPECT_TRUE(loses_a_wake(setting, recorded()));
  }
}

TEST(WakeOrder, ExplorationFindsLostWakesOfWrongOrders) {
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(loses_a_wake(setting, without(Step::kBarrier, recorded())));
    EXPECT_TRUE(loses_a_wake(setting, without(Step::kWake, recorded())));
    EXPECT_TRUE(loses_a_wake(setting, swapped(Step::kAnnounce, Step::kLook, recorded())));
    EXPECT_TRUE(loses_a_wake(setting, swapped(Step::kBarrier, Step::kLook, recorded())));
    EXPECT_TRUE(loses_a_wake(setting, swapped(Step::kPublish, Step::kSeeAsleep, recorded())));
  }
}

// ---------------------------------------------------------------- the words themselves

constexpr Duration kSoon = 5_ms;
constexpr Duration kNever = 60_s;

bool kernel_supports() {
  return WakeBarrier::join().ok() && WakeBarrier::execute().ok() && WakeWait::probe().ok();
}

TEST(WakeWord, WaitEndsWithARingOfAnyWord) {
  if (!kernel_supports()) GTEST_SKIP() << "this kernel cannot wait on several words";
  std::array<WakeWord, 3> words;
  const std::array<WakeWord*, 3> all = {&words[0], &words[1], &words[2]};
  for (WakeWord& ringing : words) {
    for (WakeWord& w : words) w.announce();
    std::thread waker([&] { ringing.ring_if_asleep(); });
    EXPECT_EQ(WakeWait::wait(all, monotonic_now() + kNever), WakeWait::Outcome::kWoken);
    waker.join();
    EXPECT_TRUE(ringing.rung());
  }
}

TEST(WakeWord, WordThatIsNotAsleepEndsTheWaitAtOnce) {
  if (!kernel_supports()) GTEST_SKIP() << "this kernel cannot wait on several words";
  WakeWord asleep, awake;
  asleep.announce();
  awake.announce();
  awake.withdraw();
  EXPECT_EQ(WakeWait::wait(std::array{&asleep, &awake}, monotonic_now() + kNever), WakeWait::Outcome::kWoken);
  EXPECT_TRUE(asleep.asleep());
  EXPECT_FALSE(awake.rung());
}

TEST(WakeWord, WaitEndsAtItsDeadline) {
  if (!kernel_supports()) GTEST_SKIP() << "this kernel cannot wait on several words";
  WakeWord word;
  word.announce();
  const Instant deadline = monotonic_now() + kSoon;
  EXPECT_EQ(WakeWait::wait(std::array{&word}, deadline), WakeWait::Outcome::kTimeout);
  EXPECT_GE(monotonic_now(), deadline);
}

TEST(WakeWord, AwakeSleeperIsNotRung) {
  WakeWord word;
  word.ring_if_asleep();
  EXPECT_FALSE(word.rung());
  word.announce();
  word.ring_if_asleep();
  EXPECT_TRUE(word.rung());
  word.withdraw();
  EXPECT_FALSE(word.rung());
}

// Two threads and one counter: every round ends although nothing but a wake can end it.
TEST(WakeWord, EveryRoundOfTwoThreadsEnds) {
  if (!kernel_supports()) GTEST_SKIP() << "this kernel cannot wait on several words";
  constexpr std::uint32_t kRounds = 3000;
  struct Side {
    std::atomic<std::uint32_t> published{0};
    WakeWord word;
  };
  std::array<Side, 2> sides;  // by the one that sleeps there
  struct Sleeper {
    Side& own;
    std::uint32_t awaited;
    bool timed_out = false;
    void announce() { own.word.announce(); }
    void barrier() { EXPECT_TRUE(WakeBarrier::execute().ok()); }
    bool look() { return own.published.load(std::memory_order_acquire) == awaited; }
    void wait() {
      timed_out =
          WakeWait::wait(std::array{&own.word}, monotonic_now() + kNever) == WakeWait::Outcome::kTimeout;
    }
    void withdraw() { own.word.withdraw(); }
  };
  const auto play = [&](unsigned self) {
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      const auto give = [&] {
        sides[1 - self].published.store(round, std::memory_order_release);
        sides[1 - self].word.ring_if_asleep();
      };
      if (self == 0) give();
      while (sides[self].published.load(std::memory_order_acquire) != round) {
        Sleeper sleeper{sides[self], round};
        sleep_until_woken(sleeper);
        ASSERT_FALSE(sleeper.timed_out) << "a wake was lost in round " << round;
      }
      if (self == 1) give();
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
}

}  // namespace
}  // namespace braid
