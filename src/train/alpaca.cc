#include "train/alpaca.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "train/file_bytes.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlank = " \t\r\n";

// Walks the text and keeps in `cursor` how far the parser has read, which the parser's events do not say.
class TrackingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, const char** cursor) : at_(at), cursor_(cursor) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *cursor_ = ++at_;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** cursor_;
};

struct Source {
  std::string_view text;  // the whole file
  std::string_view name;

  // "file:line:column (byte N)" of the byte just before `cursor`, the last one that was read.
  std::string place(const char* cursor) const {
    std::size_t end = static_cast<std::size_t>(cursor - text.data());
    std::size_t last = end == 0 ? 0 : end - 1;
    std::string_view before = text.substr(0, last);
    std::size_t line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
    std::size_t newline = before.rfind('\n');
    std::size_t column = newline == std::string_view::npos ? last + 1 : last - newline;
    return fmt::format("{}:{}:{} (byte {})", name, line, column, last);
  }
};

// nlohmann's own message without its tag and without its line, which counts from the start of a JSON Lines row.
std::string syntax_message(const char* what) {
  std::string_view message = what;
  if (std::size_t tag = message.find("] "); message.starts_with('[') && tag != std::string_view::npos) {
    message.remove_prefix(tag + 2);
  }
  if (std::size_t colon = message.find(": "); message.starts_with("parse error") && colon != std::string_view::npos) {
    message.remove_prefix(colon + 2);
  }
  return std::string(message);
}

// Turns parser events into rows. Depth 0 is the document, 1 the rows, 2 the fields (one less in JSON Lines, where
// each line is a row of its own). Anything inside a field that we do not know is passed over, however deep.
class RowBuilder : public nlohmann::json_sax<json> {
 public:
  RowBuilder(const Source& source, bool one_row_per_document, std::vector<Row>& rows)
      : source_(source), row_depth_(one_row_per_document ? 0 : 1), rows_(rows) {}

  const char** cursor() { return &cursor_; }
  Status take_error() { return std::move(error_); }

  bool null() override {
    if (at_field() && field_ != nullptr && field_ == &row_.input) {
      field_ = nullptr;
      return true;
    }
    return accept("null");
  }
  bool boolean(bool) override { return accept("a boolean"); }
  bool number_integer(number_integer_t) override { return accept("a number"); }
  bool number_unsigned(number_unsigned_t) override { return accept("a number"); }
  bool number_float(number_float_t, const string_t&) override { return accept("a number"); }
  bool binary(binary_t&) override { return accept("binary data"); }
  bool string(string_t& value) override {
    if (!at_field() || field_ == nullptr) return accept("a string");
    *field_ = std::move(value);
    if (field_ == &row_.instruction) has_instruction_ = true;
    if (field_ == &row_.output) has_output_ = true;
    field_ = nullptr;
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ == row_depth_) {
      row_ = {};
      has_instruction_ = has_output_ = false;
      field_ = nullptr;
    } else if (!accept("an object")) {
      return false;
    }
    ++depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (!at_field()) return true;
    field_ = nullptr;
    if (name == "instruction") field_ = &row_.instruction;
    if (name == "input") field_ = &row_.input;
    if (name == "output") field_ = &row_.output;
    field_name_ = field_ == nullptr ? "" : name;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ != row_depth_) return true;
    if (!has_instruction_) return fail_row("has no \"instruction\"");
    if (!has_output_) return fail_row("has no \"output\"");
    rows_.push_back(std::move(row_));
    return true;
  }
  bool start_array(std::size_t) override {
    bool document = row_depth_ == 1 && depth_ == 0;
    if (!document && !accept("an array")) return false;
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    error_ =
        Status(StatusCode::kCorrupt, fmt::format("{}: not valid JSON, after {} good rows: {}", source_.place(cursor_),
                                                 rows_.size(), syntax_message(error.what())));
    return false;
  }

 private:
  bool at_field() const { return depth_ == row_depth_ + 1; }

  // A value where a row or one of our three fields should stand is an error; elsewhere it is nobody's concern.
  bool accept(const char* kind) {
    if (depth_ < row_depth_) return fail(fmt::format("is {} at the top, not an array of rows", kind));
    if (depth_ == row_depth_) return fail_row(fmt::format("is {}, not an object", kind));
    if (at_field() && field_ != nullptr) {
      return fail_row(fmt::format("has {} as \"{}\", not a string", kind, field_name_));
    }
    return true;
  }
  bool fail_row(const std::string& what) { return fail(fmt::format("row {} {}", rows_.size() + 1, what)); }
  bool fail(const std::string& what) {
    error_ =
        Status(StatusCode::kInvalidArgument,
               fmt::format("{}: {}; an Alpaca row is an object with the strings \"instruction\", \"input\" (may be "
                           "left out) and \"output\"",
                           source_.place(cursor_), what));
    return false;
  }

  const Source& source_;
  const int row_depth_;
  std::vector<Row>& rows_;
  const char* cursor_ = source_.text.data();
  int depth_ = 0;
  Row row_;
  bool has_instruction_ = false;
  bool has_output_ = false;
  std::string* field_ = nullptr;  // where the next value of this row goes; null: not one of ours
  std::string field_name_;
  Status error_;
};

// Parses one JSON document of the file: the whole array, or one line.
Status parse_document(const Source& source, std::string_view document, bool one_row, std::vector<Row>& rows) {
  RowBuilder builder(source, one_row, rows);
  *builder.cursor() = document.data();
  TrackingIterator begin(document.data(), builder.cursor());
  TrackingIterator end(document.data() + document.size(), builder.cursor());
  try {
    if (json::sax_parse(begin, end, &builder)) return Status::ok();
    return builder.take_error();
  } catch (const std::exception& error) {  // memory, or a bug of the parser
    return Status(StatusCode::kInternal, fmt::format("{}: reading JSON failed: {}", source.name, error.what()));
  }
}

Status parse_lines(const Source& source, std::string_view body, std::vector<Row>& rows) {
  while (!body.empty()) {
    std::size_t newline = body.find('\n');
    std::string_view line = body.substr(0, newline);
    body.remove_prefix(newline == std::string_view::npos ? body.size() : newline + 1);
    if (line.find_first_not_of(kBlank) == std::string_view::npos) continue;
    if (Status status = parse_document(source, line, true, rows); !status) {
      if (status.code() != StatusCode::kCorrupt) return status;
      return Status(status.code(),
                    status.message() + "; a file that begins with '{' is read as JSON Lines, one whole row per line");
    }
  }
  return Status::ok();
}

}  // namespace

Result<std::vector<Row>> parse_alpaca(std::string_view text, std::string_view name) {
  Source source{text, name};
  std::string_view body = text;
  if (body.starts_with(kByteOrderMark)) body.remove_prefix(kByteOrderMark.size());
  std::size_t first = body.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: the file is empty; expected Alpaca rows", name));
  }
  std::vector<Row> rows;
  bool lines = body[first] == '{';
  Status status = lines ? parse_lines(source, body, rows) : parse_document(source, body, false, rows);
  if (!status) return status;
  if (rows.empty()) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: the data set has no rows", name));
  }
  return rows;
}

Result<std::vector<Row>> read_alpaca(const std::filesystem::path& file) {
  Result<std::string> text = read_file(file);
  if (!text) return text.error();
  return parse_alpaca(*text, file.string());
}

std::string to_alpaca_json(const std::vector<Row>& rows) {
  std::string out = "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    nlohmann::ordered_json row{
        {"instruction", rows[i].instruction}, {"input", rows[i].input}, {"output", rows[i].output}};
    out += i == 0 ? "\n" : ",\n";
    // A row that did not come from parse_alpaca may hold bytes that are no UTF-8; a replacement mark keeps the file
    // valid.
    out += row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  out += "\n]\n";
  return out;
}

}  // namespace lockstep::train
