#include "dsm/program/stack_trace.h"

#include <backtrace.h>
#include <fmt/format.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "dsm/program/failure.h"

// Of libsupc++: as abi::__cxa_demangle(), without memory of the heap.
extern "C" int __gcclibcxx_demangle_callback(const char* mangled,  // NOLINT
                                             void (*part)(const char* text, std::size_t length, void* to),
                                             void* to);

namespace braid::dsm {

namespace {

constexpr std::size_t kMaxCalls = 64;
constexpr std::size_t kLineBytes = 512;
// The demangler takes stack in proportion to a name, and runs on a signal's stack.
constexpr std::size_t kMaxMangledBytes = 400;

struct Calls {
  std::span<std::uintptr_t> at;
  std::size_t count = 0;
};

int note_call(void* to, std::uintptr_t pc) {
  auto& calls = *static_cast<Calls*>(to);
  if (calls.count == calls.at.size() || pc == ~std::uintptr_t{0})
    return 1;  // nothing has called a thread's first function
  calls.at[calls.count++] = pc;
  return 0;
}

void ignore_problem(void*, const char*, int) {}

// A line that is cut where it is full.
struct Line {
  char text[kLineBytes];
  std::size_t length = 0;

  void add(std::string_view part) {
    const std::size_t taken = std::min(part.size(), kLineBytes - 1 - length);
    std::memcpy(text + length, part.data(), taken);
    length += taken;
  }
  template <class... Args>
  void format(fmt::format_string<Args...> form, const Args&... args) {
    length += format_within(text + length, kLineBytes - 1 - length, form, fmt::make_format_args(args...));
  }
  void add_function(const char* name) {
    const auto part = [](const char* piece, std::size_t bytes, void* line) {
      static_cast<Line*>(line)->add({piece, bytes});
    };
    const std::size_t before = length;
    // Another name could be read as a type's: f is float.
    if (std::strncmp(name, "_Z", 2) == 0 && std::strlen(name) < kMaxMangledBytes &&
        __gcclibcxx_demangle_callback(name, part, this) == 0)
      return;
    length = before;
    add(name);
  }
};

class Trace {
 public:
  explicit Trace(void (*write)(const char*, std::size_t))
      : state_(::backtrace_create_state(nullptr, 1, ignore_problem, nullptr)), write_(write) {}

  backtrace_state* state() const { return state_; }
  // `pc` is an address inside the calling instruction.
  void put(std::uintptr_t pc) {
    lines_of_call_ = 0;
    pc_ = pc;
    if (state_ != nullptr) {
      ::backtrace_pcinfo(state_, pc, put_source, ignore_problem, this);
      if (lines_of_call_ == 0) ::backtrace_syminfo(state_, pc, put_symbol, ignore_problem, this);
    }
    if (lines_of_call_ == 0) put_line(nullptr, nullptr, 0);
  }

 private:
  static int put_source(void* self, std::uintptr_t, const char* file, int line, const char* function) {
    // Without a function the symbol table may know more.
    if (function != nullptr) static_cast<Trace*>(self)->put_line(function, file, line);
    return 0;
  }
  static void put_symbol(void* self, std::uintptr_t, const char* name, std::uintptr_t, std::uintptr_t) {
    if (name != nullptr) static_cast<Trace*>(self)->put_line(name, nullptr, 0);
  }
  void put_line(const char* function, const char* file, int line) {
    Line out;
    out.format("#{} ", number_++);
    if (function != nullptr) {
      out.add_function(function);
    } else {
      out.format("{:#x}", pc_);
    }
    if (file != nullptr) out.format(" at {}:{}", file, line);
    out.text[out.length++] = '\n';
    write_(out.text, out.length);
    ++lines_of_call_;
  }

  backtrace_state* const state_;
  void (*const write_)(const char*, std::size_t);
  std::uintptr_t pc_ = 0;
  unsigned number_ = 0;
  unsigned lines_of_call_ = 0;
};

}  // namespace

void write_stack_trace(const void* context, void (*write)(const char* text, std::size_t length)) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  const auto interrupted = static_cast<std::uintptr_t>(registers[REG_RIP]);
  Trace trace(write);
  trace.put(interrupted);
  std::array<std::uintptr_t, kMaxCalls> room{};
  Calls calls = {.at = room};
  if (trace.state() != nullptr) ::backtrace_simple(trace.state(), 0, note_call, ignore_problem, &calls);
  // The frames of the handler come first. Addresses of calls are those of return less one.
  const std::uintptr_t* const first = room.data();
  const std::uintptr_t* const end = first + calls.count;
  const std::uintptr_t* const own =
      std::find_if(first, end, [&](std::uintptr_t pc) { return pc == interrupted || pc + 1 == interrupted; });
  if (interrupted == 0) {
    // A call of a null pointer, from where the walk cannot go on: its return address is on top of the stack.
    trace.put(*reinterpret_cast<const std::uintptr_t*>(registers[REG_RSP]) - 1);  // NOLINT
  } else if (own != end) {
    std::for_each(own + 1, end, [&](std::uintptr_t pc) { trace.put(pc); });
  }
}

namespace {

backtrace_state* debugging_information() {
  static backtrace_state* const state = ::backtrace_create_state(nullptr, 1, ignore_problem, nullptr);
  return state;
}

// Of static functions the debugging information has no more than a short name.
constexpr std::array<std::string_view, 5> kRuntimeFolders = {"/dsm/blocks/", "/dsm/once/", "/dsm/parmacs/",
                                                             "/dsm/program/", "/dsm/pthreads/"};

constexpr std::array<std::string_view, 5> kRuntimeNames = {"_ZN5braid3dsm", "_ZNK5braid3dsm", "_ZN5braid3sim",
                                                           "_ZNK5braid3sim", "braid_"};

// Of the runtime and of its headers, whose templates are compiled into programs.
bool is_of_runtime(std::string_view function, std::string_view file) {
  return std::ranges::any_of(kRuntimeNames,
                             [&](std::string_view name) { return function.starts_with(name); }) ||
         file.ends_with("/dsm/api.h") || file.ends_with("/dsm/threads.h") ||
         std::any_of(kRuntimeFolders.begin(), kRuntimeFolders.end(),
                     [&](std::string_view folder) { return file.find(folder) != file.npos; });
}

struct Place {
  Line text;
  bool has_source = false;  // debugging information knows the call

  void take(const char* function, const char* file, int line) {
    const std::string_view in = file == nullptr ? "" : file;
    if (function == nullptr || text.length > 0 || is_of_runtime(function, in)) return;
    text.add_function(function);
    if (!in.empty()) text.format(" at {}:{}", in.substr(in.rfind('/') + 1), line);
  }
};

}  // namespace

std::size_t calls_to_here(std::span<std::uintptr_t> calls) {
  Calls noted = {.at = calls};
  if (backtrace_state* const state = debugging_information(); state != nullptr)
    ::backtrace_simple(state, 1, note_call, ignore_problem, &noted);
  return noted.count;
}

DataSymbol data_symbol(std::uintptr_t address) {
  DataSymbol symbol;
  backtrace_state* const state = debugging_information();
  if (state == nullptr) return symbol;
  ::backtrace_syminfo(
      state, address,
      [](void* to, std::uintptr_t, const char* name, std::uintptr_t first, std::uintptr_t bytes) {
        if (name != nullptr && bytes > 0) *static_cast<DataSymbol*>(to) = {{}, name, first, bytes};
      },
      ignore_problem, &symbol);
  // Compilers number static variables of functions: calls.0.
  const std::string_view name = symbol.linker_name;
  const std::size_t dot = name.rfind('.');
  const bool numbered = dot != std::string_view::npos && dot + 1 < name.size() &&
                        name.find_first_not_of("0123456789", dot + 1) == std::string_view::npos;
  Line line;
  line.add_function(std::string(numbered ? name.substr(0, dot) : name).c_str());
  symbol.name.assign(line.text, line.length);
  return symbol;
}

std::string place_in_program(std::span<const std::uintptr_t> calls) {
  backtrace_state* const state = debugging_information();
  Place place;
  for (const std::uintptr_t pc : calls) {
    if (state == nullptr || place.text.length > 0) break;
    place.has_source = false;
    ::backtrace_pcinfo(
        state, pc,
        [](void* to, std::uintptr_t, const char* file, int line, const char* function) {
          static_cast<Place*>(to)->has_source |= function != nullptr;
          static_cast<Place*>(to)->take(function, file, line);
          return 0;
        },
        ignore_problem, &place);
    if (place.has_source) continue;
    ::backtrace_syminfo(
        state, pc,
        [](void* to, std::uintptr_t, const char* name, std::uintptr_t, std::uintptr_t) {
          static_cast<Place*>(to)->take(name, nullptr, 0);
        },
        ignore_problem, &place);
  }
  return {place.text.text, place.text.length};
}

std::string place_of_call() {
  std::array<std::uintptr_t, 24> calls{};
  const std::size_t depth = calls_to_here(calls);
  const std::string place = place_in_program(std::span<const std::uintptr_t>(calls.data(), depth));
  return place.empty() ? place : " in " + place;
}

}  // namespace braid::dsm
