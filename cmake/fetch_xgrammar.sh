#!/bin/sh
# Unpacks XGrammar's source into .cache/xgrammar: cmake/fetch_xgrammar.sh PIP
# Without PIP it only says, by its exit code, whether the source is there.
# It comes from the Python package index by its digest. Of the archive only the C++ core is kept, and the licences.
set -eu
cd "$(dirname "$0")/.."

version=0.2.8
sha256=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
root=.cache/xgrammar
stamp="$sha256, mended three times"

[ "$(cat $root/.outrider-source 2>/dev/null)" != "$stamp" ] || exit 0
[ $# != 0 ] || exit 1
rm -rf $root $root.part
mkdir -p $root.part
echo "xgrammar==$version --hash=sha256:$sha256" >$root.part/requirements.txt
"$1" download --disable-pip-version-check -q --no-cache-dir --no-deps --no-binary xgrammar --require-hashes \
  -d $root.part -r $root.part/requirements.txt
tar xzf $root.part/xgrammar-$version.tar.gz -C $root.part --strip-components=1 xgrammar-$version/cpp \
  xgrammar-$version/include xgrammar-$version/LICENSE xgrammar-$version/NOTICE \
  xgrammar-$version/3rdparty/picojson/picojson.h xgrammar-$version/3rdparty/dlpack/include \
  xgrammar-$version/3rdparty/dlpack/LICENSE
# Whether one token begins another is asked by find(), which also finds it further back: a token was left out of masks
# where another one within it was ruled out.
mended=$root.part/cpp/tokenizer_info.cc
sed -i 's/(token\.find(prefix_stack\.top()\.first) == std::string::npos)/(token.rfind(prefix_stack.top().first, 0) != 0)/' $mended
grep -q 'token\.rfind(prefix_stack\.top()\.first, 0) != 0' $mended
# A string with a length could hold raw control characters, which JSON does not allow.
mended=$root.part/cpp/json_schema_converter.cc
sed -i "s/{'\\\\r', '\\\\r'}, {'\\\\n', '\\\\n'}}, true)/{0x00, 0x1f}}, true)/" $mended
grep -q "{'\\\\\\\\', '\\\\\\\\'}, {0x00, 0x1f}}, true)" $mended
# The characters of a longer string were counted by a state for each, and each state's mask is found among the whole
# vocabulary: seconds for a string of 100. The matcher can count them as they come.
sed -i 's/int32_t body = Repeat(rule_name + "_characters", character, spec\.min_length, spec\.max_length);/const bool counted = spec.max_length > 16;\
      int32_t body = Repeat(rule_name + "_characters", character, spec.min_length, counted ? -1 : spec.max_length);\
      if (counted) {\
        const int32_t rule = builder_.AddRuleWithHint(rule_name + "_counted", Choice({Sequence({body})}));\
        builder_.UpdateMaxChars(rule, spec.max_length);\
        body = builder_.AddRuleRef(rule);\
      }/' $mended
grep -q 'UpdateMaxChars(rule, spec\.max_length)' $mended
rm $root.part/requirements.txt $root.part/xgrammar-$version.tar.gz
echo "$stamp" >$root.part/.outrider-source
mv $root.part $root  # the folder appears only when it is whole
