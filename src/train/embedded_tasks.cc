#include "train/embedded_tasks.h"

#include <array>
#include <set>
#include <string>
#include <utility>

#include "train/task_families.h"

namespace lockstep::train {
namespace {

struct Family {
  Row (*make)(TaskRandom&);
  int weight;
};
constexpr std::array kFamilies = std::to_array<Family>({{tasks::arithmetic, 12},
                                                        {tasks::sort_words, 9},
                                                        {tasks::sort_numbers, 7},
                                                        {tasks::reverse_text, 7},
                                                        {tasks::convert_units, 9},
                                                        {tasks::count_things, 7},
                                                        {tasks::look_up, 3},
                                                        {tasks::edit_text, 9},
                                                        {tasks::dates, 8},
                                                        {tasks::compare, 8},
                                                        {tasks::logic, 8},
                                                        {tasks::sequence, 6},
                                                        {tasks::make_list, 6},
                                                        {tasks::grammar, 6},
                                                        {tasks::explain, 7},
                                                        {tasks::short_note, 4}});

Row make_row(TaskRandom& random) {
  int total = 0;
  for (const Family& family : kFamilies) total += family.weight;
  std::int64_t ticket = random.between(1, total);
  for (const Family& family : kFamilies) {
    ticket -= family.weight;
    if (ticket <= 0) return family.make(random);
  }
  return kFamilies.back().make(random);
}

}  // namespace

std::uint64_t TaskRandom::next() noexcept {
  // splitmix64 (Steele, Lea, Flood 2014).
  state_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::int64_t TaskRandom::between(std::int64_t low, std::int64_t high) noexcept {
  return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
}

std::vector<Row> make_embedded_rows(std::size_t count, std::uint64_t seed) {
  constexpr int kTries = 4;
  TaskRandom random(seed);
  std::set<std::string> seen;
  std::vector<Row> rows;
  rows.reserve(count);
  while (rows.size() < count) {
    Row row;
    for (int i = 0; i < kTries; ++i) {
      row = make_row(random);
      if (seen.insert(row.instruction + '\n' + row.input).second) break;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lockstep::train
