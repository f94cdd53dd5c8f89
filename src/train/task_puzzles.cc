#include <fmt/format.h>

#include <chrono>
#include <iterator>

#include "train/task_families.h"

namespace lockstep::train::tasks {
namespace {

using std::string_view;

constexpr std::array kNouns = std::to_array<string_view>(
    {"apple",  "river",   "stone",  "garden", "window", "paper",  "candle", "bridge", "orange", "silver",
     "forest", "kitchen", "pencil", "music",  "winter", "summer", "basket", "mirror", "ladder", "island",
     "rocket", "camera",  "button", "pocket", "letter", "market", "school", "doctor", "farmer", "singer",
     "planet", "engine",  "bottle", "carpet", "hammer", "needle", "pillow", "tunnel", "valley", "yellow",
     "cloud",  "train",   "bread",  "chair",  "grass",  "house",  "knife",  "lemon",  "mouse",  "ocean",
     "queen",  "sugar",   "table",  "tiger",  "water",  "zebra",  "boat",   "fish",   "moon",   "rain"});
constexpr std::array kMonths =
    std::to_array<string_view>({"January", "February", "March", "April", "May", "June", "July", "August", "September",
                                "October", "November", "December"});

std::string join(const Words& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

}  // namespace

Row arithmetic(TaskRandom& random) {
  std::int64_t a = random.between(2, 99), b = random.between(2, 99);
  static constexpr std::array kAsk = std::to_array<string_view>({"What is {}?", "Compute {}.", "Work out {}."});
  std::string term, result;
  switch (random.between(0, 2)) {
    case 0:
      term = fmt::format("{} + {}", a, b), result = std::to_string(a + b);
      break;
    case 1:
      term = fmt::format("{} - {}", std::max(a, b), std::min(a, b)),
      result = std::to_string(std::max(a, b) - std::min(a, b));
      break;
    default:
      b = b % 10 + 2;
      term = fmt::format("{} x {}", a, b), result = std::to_string(a * b);
  }
  if (random.chance(30)) return {"Solve the problem.", term, result};
  return {fmt::format(fmt::runtime(random.pick(kAsk)), term), "", result};
}

Row sort_words(TaskRandom& random) {
  Words words = sample(random, kNouns, static_cast<std::size_t>(random.between(3, 7)));
  std::string given = join(words, ", ");
  bool backwards = random.chance(25);
  std::sort(words.begin(), words.end());
  if (backwards) std::reverse(words.begin(), words.end());
  return {backwards ? "Sort the words from Z to A." : "Sort the words by the alphabet.", given, join(words, ", ")};
}

Row sort_numbers(TaskRandom& random) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = random.between(3, 6); i > 0; --i) numbers.push_back(random.between(1, 99));
  std::string given = fmt::format("{}", fmt::join(numbers, ", "));
  std::sort(numbers.begin(), numbers.end());
  return {"Sort the numbers, smallest first.", given, fmt::format("{}", fmt::join(numbers, ", "))};
}

Row reverse_text(TaskRandom& random) {
  if (random.chance(40)) {
    Words words = sample(random, kNouns, static_cast<std::size_t>(random.between(2, 4)));
    std::string given = join(words, " ");
    std::reverse(words.begin(), words.end());
    return {"Reverse the order of the words.", given, join(words, " ")};
  }
  std::string word(random.pick(kNouns));
  std::string prefix(random.pick(kNouns));
  std::string given = random.chance(50) ? word : word + prefix.substr(0, 2);
  return {"Write the letters backwards.", given, std::string(given.rbegin(), given.rend())};
}

Row convert_units(TaskRandom& random) {
  struct Unit {
    string_view from, to;
    std::int64_t factor;
  };
  static constexpr std::array kUnits = std::to_array<Unit>({{"km", "m", 1000},
                                                            {"m", "cm", 100},
                                                            {"kg", "g", 1000},
                                                            {"hours", "minutes", 60},
                                                            {"minutes", "seconds", 60},
                                                            {"days", "hours", 24},
                                                            {"weeks", "days", 7},
                                                            {"litres", "ml", 1000},
                                                            {"feet", "inches", 12},
                                                            {"dozen", "pieces", 12}});
  const Unit& unit = random.pick(kUnits);
  std::int64_t amount = random.between(2, 60);
  std::string instruction = random.chance(50) ? fmt::format("Convert {} {} to {}.", amount, unit.from, unit.to)
                                              : fmt::format("How many {} are {} {}?", unit.to, amount, unit.from);
  return {instruction, "", fmt::format("{} {} are {} {}.", amount, unit.from, amount * unit.factor, unit.to)};
}

Row count_things(TaskRandom& random) {
  if (random.chance(40)) {
    Words words = sample(random, kNouns, static_cast<std::size_t>(random.between(2, 8)));
    return {"Count the words.", join(words, " "), std::to_string(words.size())};
  }
  std::string word(random.pick(kNouns));
  if (random.chance(30))
    return {fmt::format("How many letters has the word {}?", word), "", std::to_string(word.size())};
  char letter = random.chance(70) ? random.pick(word) : static_cast<char>('a' + random.between(0, 25));
  return {fmt::format("How often does the letter {} occur?", letter), word,
          std::to_string(std::count(word.begin(), word.end(), letter))};
}

Row edit_text(TaskRandom& random) {
  Words words = sample(random, kNouns, static_cast<std::size_t>(random.between(2, 5)));
  std::string given = join(words, " ");
  std::string out = given;
  switch (random.between(0, 3)) {
    case 0:
      for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      return {"Write the text in capital letters.", given, out};
    case 1:
      std::erase_if(out, [](char c) { return string_view("aeiou").find(c) != string_view::npos; });
      return {"Remove the vowels.", given, out};
    case 2: {
      std::string other(random.pick(kNouns)), old = words[0];
      words[0] = other;
      return {fmt::format("Replace {} by {}.", old, other), given, join(words, " ")};
    }
    default:
      words.erase(words.begin());
      return {"Drop the first word.", given, join(words, " ")};
  }
}

Row dates(TaskRandom& random) {
  switch (random.between(0, 3)) {
    case 0: {
      std::int64_t day = random.between(0, 6), later = random.between(1, 20);
      return {fmt::format("Which day is {} days after {}?", later, kDays[static_cast<std::size_t>(day)]), "",
              std::string(kDays[static_cast<std::size_t>((day + later) % 7)])};
    }
    case 1: {
      auto year = static_cast<int>(random.between(1900, 2099));
      bool leap = std::chrono::year(year).is_leap();
      return {fmt::format("Is {} a leap year?", year), "",
              leap ? fmt::format("Yes, {} is a leap year.", year) : fmt::format("No, {} is not a leap year.", year)};
    }
    case 2: {
      using namespace std::chrono;
      // One draw per statement: the compiler may evaluate operands in any order, and the rows must not depend on it.
      year y(static_cast<int>(random.between(2000, 2030)));
      month m(static_cast<unsigned>(random.between(1, 12)));
      day d(static_cast<unsigned>(random.between(1, 28)));
      year_month_day date = y / m / d;
      string_view name = kMonths[static_cast<unsigned>(date.month()) - 1];
      return {"Write the date as year-month-day.",
              fmt::format("{} {} {}", static_cast<unsigned>(date.day()), name, static_cast<int>(date.year())),
              fmt::format("{}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                          static_cast<unsigned>(date.day()))};
    }
    default: {
      std::int64_t hour = random.between(0, 23), minute = random.between(0, 11) * 5, later = random.between(1, 12) * 10;
      std::int64_t end = (hour * 60 + minute + later) % (24 * 60);
      return {fmt::format("What time is it {} minutes after {:02}:{:02}?", later, hour, minute), "",
              fmt::format("{:02}:{:02}", end / 60, end % 60)};
    }
  }
}

Row compare(TaskRandom& random) {
  std::int64_t a = random.between(1, 999), b = random.between(1, 999);
  if (a == b) ++b;
  bool larger = random.chance(50);
  std::int64_t answer = larger ? std::max(a, b) : std::min(a, b);
  if (random.chance(40)) {
    return {larger ? "Which number is larger?" : "Which number is smaller?", fmt::format("{}, {}", a, b),
            std::to_string(answer)};
  }
  return {fmt::format("Which is {}, {} or {}?", larger ? "larger" : "smaller", a, b), "",
          fmt::format("{} is {} than {}.", answer, larger ? "larger" : "smaller", a + b - answer)};
}

Row logic(TaskRandom& random) {
  static constexpr std::array kMore = std::to_array<std::array<string_view, 3>>(
      {{"taller", "tallest", "shortest"}, {"older", "oldest", "youngest"}, {"faster", "fastest", "slowest"}});
  Words names = sample(random, kNames, static_cast<std::size_t>(random.between(3, 4)));
  const auto& more = random.pick(kMore);
  Words facts;
  for (std::size_t i = 0; i + 1 < names.size(); ++i)
    facts.push_back(fmt::format("{} is {} than {}.", names[i], more[0], names[i + 1]));
  if (random.chance(50)) std::reverse(facts.begin(), facts.end());
  bool top = random.chance(50);
  return {fmt::format("Who is the {}?", top ? more[1] : more[2]), join(facts, " "),
          fmt::format("{} is the {}.", top ? names.front() : names.back(), top ? more[1] : more[2])};
}

Row sequence(TaskRandom& random) {
  std::int64_t start = random.between(1, 40), step = random.between(1, 12);
  if (random.chance(25)) step = -step, start += 60;
  std::vector<std::int64_t> given, next;
  for (std::int64_t i = 0; i < 4; ++i) given.push_back(start + i * step);
  for (std::int64_t i = 4, end = 4 + random.between(1, 3); i < end; ++i) next.push_back(start + i * step);
  return {"Continue the sequence.", fmt::format("{}", fmt::join(given, ", ")),
          fmt::format("{}", fmt::join(next, ", "))};
}

}  // namespace lockstep::train::tasks
