package envoy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/slidegate/slidegate/internal/yamlfile"
)

// The original reads YAML 1.1, in which yes and on are true, numbers may have underscores and other bases, and 010 is
// 8. Files written for it have the same meaning here. A number that YAML 1.2 reads differently is an error.

var (
	trueWords  = []string{"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}
	falseWords = []string{"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}
)

// booleanOf returns the value of an unquoted boolean, and whether it is one.
func booleanOf(node ast.Node) (value, ok bool) {
	text, isText, scalar := yamlfile.Scalar(node)
	if !scalar || isText {
		return false, false
	}
	value = slices.Contains(trueWords, text)
	return value, value || slices.Contains(falseWords, text)
}

// boolean returns true or false; false if there is no value.
func (r *reader) boolean(f yamlfile.Field) bool {
	value, ok := booleanOf(f.Value)
	if !ok && f.Value != nil {
		r.Problems.Addf(f.ValueAt(), "%s: must be true or false, not %s", f.Name, yamlfile.Describe(f.Value))
	}
	return value
}

// ambiguous reports whether a number has a leading 0: YAML 1.1 reads it as octal, and YAML 1.2 as decimal.
func ambiguous(text string) bool {
	digits := strings.ReplaceAll(strings.TrimLeft(text, "+-"), "_", "")
	return len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' && !strings.ContainsAny(digits, ".eE")
}

// parseInteger parses an integer in the format of YAML 1.1.
func parseInteger(text string) (int64, error) {
	return strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
}

// integer returns the integer value of a field, from low to high.
func (r *reader) integer(f yamlfile.Field, low, high int64) int64 {
	if !r.hasValue(f) {
		return low
	}
	text, isText, ok := yamlfile.Scalar(f.Value)
	if ok && !isText && ambiguous(text) {
		r.refuseAmbiguous(f.Name, f.Value)
		return low
	}
	n, err := parseInteger(text)
	if !ok || isText || err != nil || n < low || n > high {
		r.Problems.Addf(f.ValueAt(), "%s: must be a whole number from %d to %d, not %s", f.Name, low, high, yamlfile.Describe(f.Value))
		return low
	}
	return n
}

func (r *reader) refuseAmbiguous(name string, node ast.Node) {
	r.Problems.Addf(yamlfile.PositionOf(node), "%s: %s is octal in YAML 1.1 and decimal in YAML 1.2; write it without the leading 0",
		name, yamlfile.Describe(node))
}

// number parses a number in metadata, and reports whether it is one.
func number(text string) (float64, bool) {
	if n, err := parseInteger(text); err == nil {
		return float64(n), true
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	return n, err == nil
}

// untag returns a scalar with the tag !!str as a quoted string, and any other value unchanged.
func untag(node ast.Node) ast.Node {
	tag, ok := node.(*ast.TagNode)
	if !ok || tag.GetToken().Value != "!!str" {
		return node
	}
	text, _, ok := yamlfile.Scalar(tag.Value)
	if !ok {
		return node
	}
	quoted := *tag.Value.GetToken()
	quoted.Type = token.DoubleQuoteType
	return &ast.StringNode{BaseNode: &ast.BaseNode{}, Token: &quoted, Value: text}
}
