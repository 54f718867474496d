#include "check.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace exercise {

// ---- tensors ---------------------------------------------------------------------------------------------

Doubles numbers(size_t n, int seed) {
  Doubles values(n);
  uint64_t state = 1000003u * static_cast<uint64_t>(seed) + 12345;
  for (double& x : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
    const int random = static_cast<int>(state >> 40);
    x = (random % 2 ? 1 : -1) * (15 + random / 2 % 150) / 100.;  // ±.15 to ±1.64
  }
  return values;
}

Guarded::Guarded(const Doubles& values, double around)
    : size_(values.size()), margin_(values.size() + 64), around_(around), all_(size_ + 2 * margin_, around) {
  std::copy(values.begin(), values.end(), data());
}

std::string Guarded::written_outside() const {
  for (size_t i = 0; i < margin_; ++i) {
    if (all_[margin_ - 1 - i] != around_) return "before its start";
    if (all_[margin_ + size_ + i] != around_) return std::to_string(i + 1) + " after its end";
  }
  return "";
}

namespace {

constexpr double kRight = 1e-12;  // relative; sums in another order differ by about 1e-16

double length(const Doubles& a) {
  double sum = 0;
  for (const double x : a) sum += x * x;
  return std::sqrt(sum);
}
Doubles minus(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}
double error(const Doubles& got, const Doubles& want) {
  const double difference = length(minus(got, want));
  return difference == 0 ? 0 : difference / length(want);
}
bool same(const Doubles& got, const Doubles& want) { return error(got, want) <= kRight; }  // not if NaN
bool same(double got, double want, double size) { return std::abs(got - want) <= kRight * size; }

std::string shown(double x, const char* format = "%.4g") {
  char text[40];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

// ---- one tensor ------------------------------------------------------------------------------------------

// The numbers of one view of an output, in the order of its letters.
struct Result {
  const View& view;
  How how;
  Doubles got, want, start;
  const std::vector<Factor>& factors;
  std::vector<Mistake> mistakes;
  std::string reason = {};

  size_t size() const { return want.size(); }
  double typical() const { return length(want) / std::sqrt(double(size())); }
  bool wrong(size_t k) const { return !same(got[k], want[k], std::max(std::abs(want[k]), typical())); }
  size_t coordinate(size_t k, size_t letter) const {
    for (size_t l = view.index.size() - 1; l > letter; --l) k /= view.index[l].size;
    return k % view.index[letter].size;
  }
  std::string at(size_t k) const {
    std::string text;
    for (size_t l = 0; l < view.index.size(); ++l)
      text += (l ? "," : "[") + std::string(view.index[l].name) + "=" +
              std::to_string(coordinate(k, l) + view.index[l].first);
    return view.name + (text.empty() ? "" : text + "]");
  }
};

Doubles gather(const Doubles& buffer, const View& view) {
  size_t size = 1;
  for (const Letter& letter : view.index) size *= letter.size;
  Doubles values(size);
  for (size_t k = 0; k < size; ++k) {
    size_t from = view.offset, rest = k, whole = 1;
    for (size_t l = view.index.size(); l-- > 0; rest /= view.index[l].size, whole *= view.index[l].size)
      from += rest % view.index[l].size * (view.index[l].stride ? view.index[l].stride : whole);
    values[k] = buffer[from];
  }
  return values;
}

// ---- descriptions of a mistake: looks_like() returns the first that fits ----------------------------------

std::string not_finite(const Result& r) {
  for (size_t k = 0; k < r.size(); ++k)
    if (!std::isfinite(r.got[k]))
      return "around each tensor is NaN: does an index run outside of one? Or is it 0/0, the root of something "
             "negative, or exp of something large? Or did a size_t go below 0: -2 * i does, -2.0 * i does not";
  return "";
}

std::string gaps(const Result& r) {
  size_t count = 0, first = 0;
  for (size_t k = r.size(); k-- > 0;)
    if (r.got[k] == r.start[k] && r.wrong(k)) ++count, first = k;
  if (count == 0) return "";
  return std::to_string(count) + " of " + std::to_string(r.size()) + " were never touched, the first is " + r.at(first);
}

// Returns all mistakes that fit: if two give the same numbers, either may have been made.
std::string known_mistake(const Result& r) {
  std::string text;
  for (const Mistake& mistake : r.mistakes)
    if (same(r.got, mistake.value) && !same(r.want, mistake.value) && text.find(mistake.text) == std::string::npos)
      text += (text.empty() ? "" : "; or ") + mistake.text;
  return text;
}

std::string all_zero(const Result& r) { return length(r.got) == 0 && length(r.want) > 0 ? "all of it is 0" : ""; }

std::string added_to_garbage(const Result& r) {
  if (r.how != How::written || !same(minus(r.got, r.start), r.want)) return "";
  return "it is right, but added to what stood there before: this is to be written (=), or set to 0 first";
}

std::string factor(const Result& r) {
  double dot = 0, size = 0;
  for (size_t k = 0; k < r.size(); ++k) dot += r.got[k] * r.want[k], size += r.want[k] * r.want[k];
  const double ratio = dot / size;
  if (!same(r.got, scaled(ratio, r.want))) return "";
  if (same(ratio, -1, 1)) return "the sign is the wrong way round";
  const std::string sign = ratio < 0 ? ", and the sign is the wrong way round" : "";
  for (const Factor& known : r.factors) {
    if (same(std::abs(ratio), known.value, known.value)) return "there is a factor " + known.name + " too many" + sign;
    if (same(1 / std::abs(ratio), known.value, known.value)) return "the factor " + known.name + " is missing" + sign;
  }
  return "all of it is " + shown(ratio) + " times what it should be";
}

// Does the same for the change of a tensor that is updated in place.
std::string factor_of_change(const Result& r) {
  if (r.how != How::in_place) return "";
  const std::string text =
      factor({r.view, r.how, minus(r.got, r.start), minus(r.want, r.start), r.start, r.factors, {}});
  return text.empty() ? "" : "of the change: " + text;
}

std::string transposed(const Result& r) {
  if (r.view.index.size() != 2) return "";
  const size_t rows = r.view.index[0].size, columns = r.view.index[1].size;
  Doubles turned(r.size());
  for (size_t k = 0; k < r.size(); ++k) turned[k % columns * rows + k / columns] = r.want[k];
  if (rows < 2 || columns < 2 || !same(r.got, turned)) return "";
  const std::string a = r.view.index[0].name, b = r.view.index[1].name;
  return "it is transposed: [" + b + "," + a + "] instead of [" + a + "," + b + "]";
}

std::string signs(const Result& r) {
  size_t turned = 0;
  for (size_t k = 0; k < r.size(); ++k) {
    if (!same(std::abs(r.got[k]), std::abs(r.want[k]), r.typical())) return "";
    turned += r.wrong(k);
  }
  return "the sizes are right, but " + std::to_string(turned) + " of " + std::to_string(r.size()) +
         " have the wrong sign";
}

// The ratio to the right value depends only on one letter.
std::string factor_by_letter(const Result& r) {
  if (r.view.index.size() < 2) return "";
  for (size_t l = 0; l < r.view.index.size(); ++l) {
    Doubles dot(r.view.index[l].size), size = dot, fitted = r.want;
    for (size_t k = 0; k < r.size(); ++k) {
      const size_t at = r.coordinate(k, l);
      dot[at] += r.got[k] * r.want[k], size[at] += r.want[k] * r.want[k];
    }
    for (size_t k = 0; k < r.size(); ++k) {
      const size_t at = r.coordinate(k, l);
      fitted[k] *= size[at] > 0 ? dot[at] / size[at] : 0;
    }
    if (r.size() > 2 * r.view.index[l].size && same(r.got, fitted)) {
      const std::string name = r.view.index[l].name;
      std::string text = "the factor to what it should be is the same for all with the same " + name + ":";
      for (size_t at = 0; at < std::min<size_t>(dot.size(), 4); ++at)
        if (size[at] > 0) text += " " + shown(dot[at] / size[at]) + " for " + name + "=" + std::to_string(at) + ",";
      return text.substr(0, text.size() - 1);
    }
  }
  return "";
}

std::string constant_in_a_row(const Result& r) {
  if (r.view.index.size() < 2) return "";
  const size_t row = r.view.index.back().size;
  if (row < 3) return "";
  const Doubles difference = minus(r.got, r.want);
  for (size_t k = 0; k < r.size(); ++k)
    if (!same(difference[k], difference[k / row * row], length(difference))) return "";
  return std::string("the difference is the same for all ") + r.view.index.back().name +
         " of a row: a mean or a sum over the row is missing, or too much";
}

std::string nearly(const Result& r) {
  if (error(r.got, r.want) > 1e-5) return "";
  return "nearly right: is something a float, or a constant with few digits? Number is double here";
}

std::string looks_like(const Result& r) {
  if (!r.reason.empty()) return r.reason;
  for (const auto pattern : {not_finite, known_mistake, nearly, all_zero, added_to_garbage, factor, factor_of_change,
                             transposed, signs, gaps, factor_by_letter, constant_in_a_row}) {
    const std::string text = pattern(r);
    if (!text.empty()) return text;
  }
  return "";
}

// ", all where t = 3", for each letter of which only some values are wrong.
std::string where_wrong(const Result& r) {
  std::string text;
  for (size_t l = 0; l < r.view.index.size(); ++l) {
    const Letter& letter = r.view.index[l];
    std::vector<bool> hit(letter.size);
    for (size_t k = 0; k < r.size(); ++k)
      if (r.wrong(k)) hit[r.coordinate(k, l)] = true;
    const size_t count = std::count(hit.begin(), hit.end(), true);
    if (letter.size == 1 || count == letter.size) continue;
    text += text.empty() ? ", all where " : " and ";
    text += letter.name;
    for (size_t at = 0, said = 0; at < letter.size; ++at)
      if (hit[at]) text += (!said++ ? " = " : said == count ? " or " : ", ") + std::to_string(at + letter.first);
  }
  return text;
}

// ---- output ------------------------------------------------------------------------------------------------

void say(const std::string& text) { std::printf("                %s\n", text.c_str()); }

// Padded to a width in characters. In UTF-8, bytes 10...... do not begin a character.
std::string padded(std::string text, size_t width) {
  const size_t shown = std::count_if(text.begin(), text.end(), [](unsigned char byte) { return byte >> 6 != 2; });
  return text.append(width - std::min(width, shown), ' ');
}

// Prints one line if the result is right, three if not. Returns whether it is right.
bool report(const Result& r, double* worst_error) {
  const double off = error(r.got, r.want);
  std::printf("    %s ", padded(r.view.name, 11).c_str());
  if (off <= kRight) {
    *worst_error = std::max(*worst_error, off);
    std::printf(off > 0 ? "right, to %.0e\n" : "right\n", off);
    return true;
  }
  if (r.got == r.start) {
    std::printf("not written yet\n");
    return false;
  }
  if (r.view.index.empty()) {
    std::printf("OFF: yours %s, should be %s\n", shown(r.got[0]).c_str(), shown(r.want[0]).c_str());
    if (!known_mistake(r).empty()) say("-> " + known_mistake(r));
    return false;
  }
  size_t worst = 0, count = 0;
  const auto distance = [&](size_t k) {
    return std::isfinite(r.got[k]) ? std::abs(r.got[k] - r.want[k]) : std::numeric_limits<double>::infinity();
  };
  for (size_t k = 0; k < r.size(); ++k) {
    count += r.wrong(k);
    if (distance(k) > distance(worst)) worst = k;
  }
  std::string yours = shown(r.got[worst]), right = shown(r.want[worst]);
  if (yours == right) yours = shown(r.got[worst], "%.12g"), right = shown(r.want[worst], "%.12g");
  std::printf("OFF, relative error %s; %zu of %zu numbers wrong%s\n", shown(off, "%.2g").c_str(), count, r.size(),
              where_wrong(r).c_str());
  say("worst: " + r.at(worst) + ": yours " + yours + ", should be " + right);
  const std::string text = looks_like(r);
  if (!text.empty()) say("-> " + text);
  return false;
}

// The contents of an output before a call.
Doubles start_of(const Output& output, int call) {
  if (output.how == How::in_place) return output.start;
  const Doubles garbage = scaled(10, numbers(output.want.size(), 77 + call));
  return output.how == How::added && call == 0 ? Doubles(garbage.size()) : garbage;
}

}  // namespace

void Judge::test(const std::string& title, const std::vector<Factor>& factors, const std::vector<Output>& outputs,
                 const std::function<void(const std::vector<double*>&)>& call) {
  if (failed_) {
    ++waiting_;
    return;
  }
  std::printf("  %s\n", title.c_str());

  std::vector<Guarded> first, second;
  for (int run : {0, 1}) {
    std::vector<Guarded>& buffers = run ? second : first;
    std::vector<double*> pointers;
    for (const Output& output : outputs) buffers.emplace_back(start_of(output, run), 1e6);
    for (Guarded& buffer : buffers) pointers.push_back(buffer.data());
    call(pointers);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Output& output = outputs[o];
    bool right = true;
    for (const View& view : output.views) {
      Result r{view, output.how, gather(first[o].values(), view), gather(output.want, view),
               gather(start_of(output, 0), view), factors, {}, output.reason};
      for (const Mistake& mistake : output.mistakes)
        r.mistakes.push_back({mistake.text, gather(mistake.value, view)});
      right = report(r, &worst_) && right;
    }
    const std::string outside = first[o].written_outside();
    if (!outside.empty()) {
      right = false;
      say("-> something was written " + outside + ": an index is too large or too small");
    }
    if (right && output.how == How::added &&
        error(minus(second[o].values(), start_of(output, 1)), output.want) > kRight * 100) {
      right = false;
      say("-> but what stood there before is lost: gradients of parameters are added (+=), as several micro-batches,");
      say("   and tokens or layers that share a parameter, all add to the same one");
    }
    failed_ = failed_ || !right;
  }
  right_ += !failed_;
}

void Judge::wrong(const std::string& text) {
  say("-> " + text);
  right_ -= !failed_;
  failed_ = true;
}

bool Judge::verdict() const {
  if (failed_)
    std::printf("\nNot yet: %zu of %zu cases right%s.\n", right_, right_ + 1 + waiting_,
                waiting_ ? "; the others wait for this one" : "");
  else
    std::printf("\nRight in %zu of %zu cases, to %.1e at worst.\n", right_, right_, worst_);
  return !failed_;
}

}  // namespace exercise

int main(int, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);  // keep the output even if the code crashes
  alarm(10);                                       // end an endless loop
  for (const exercise::Exercise& e : exercise::exercises)
    if (e.name == argv[1]) {
      exercise::Judge judge;
      e.judge(judge);
      return judge.verdict() ? 0 : 1;
    }
  std::fprintf(stderr, "no judge for %s\n", argv[1]);
  return 2;
}
