package jsonapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// schemas validates values by the JSON Schemas of a document, as far as our document uses them: an unknown keyword is
// an error. The end-to-end tests validate the document with a real validator.
type schemas struct{ document any }

// decode reads JSON and keeps numbers as they are written.
func decode(text string) (value any, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err = decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("unexpected data after the JSON")
	}
	return value, nil
}

// at returns what a JSON pointer points to.
func (s schemas) at(pointer string) (found any, err error) {
	found = s.document
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		object, _ := found.(map[string]any)
		var ok bool
		if found, ok = object[unescape.Replace(step)]; !ok {
			return nil, fmt.Errorf("the document has no %s", pointer)
		}
	}
	return found, nil
}

// check returns what is wrong with a value at a path.
func (s schemas) check(schema any, path string, value any) error {
	keywords, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: the schema %v is not an object", path, schema)
	}
	for keyword, want := range keywords {
		if err := s.keyword(keywords, keyword, want, path, value); err != nil {
			return err
		}
	}
	return nil
}

func (s schemas) keyword(all map[string]any, keyword string, want any, path string, value any) error {
	good := true
	switch keyword {
	case "description", "default", "contentEncoding", "format": // no effect on validity
	case "$ref":
		schema, err := s.at(strings.TrimPrefix(want.(string), "#"))
		if err != nil {
			return err
		}
		return s.check(schema, path, value)
	case "type":
		good = hasType(want, value)
	case "enum":
		good = slices.ContainsFunc(want.([]any), func(one any) bool { return reflect.DeepEqual(one, value) })
	case "const":
		good = reflect.DeepEqual(want, value)
	case "oneOf":
		fits := 0
		for _, one := range want.([]any) {
			if s.check(one, path, value) == nil {
				fits++
			}
		}
		good = fits == 1
	case "properties", "required", "additionalProperties":
		if object, ok := value.(map[string]any); ok {
			return s.object(all, keyword, want, path, object)
		}
	case "items", "minItems", "maxItems", "uniqueItems":
		if array, ok := value.([]any); ok {
			return s.array(keyword, want, path, array)
		}
	case "minimum", "maximum":
		if number, ok := value.(json.Number); ok {
			order := rational(number).Cmp(rational(want.(json.Number)))
			good = order == 0 || (order > 0) == (keyword == "minimum")
		}
	case "minLength", "pattern":
		if text, ok := value.(string); ok && keyword == "pattern" {
			good = regexp.MustCompile(want.(string)).MatchString(text)
		} else if ok {
			good = rational(want.(json.Number)).Cmp(big.NewRat(int64(utf8.RuneCountInString(text)), 1)) <= 0
		}
	default:
		return fmt.Errorf("%s: unknown keyword %s", path, keyword)
	}
	if !good {
		return fmt.Errorf("%s: %v violates %s %v of the schema", path, value, keyword, want)
	}
	return nil
}

func (s schemas) object(all map[string]any, keyword string, want any, path string, object map[string]any) error {
	properties, _ := all["properties"].(map[string]any)
	switch keyword {
	case "required":
		for _, name := range want.([]any) {
			if _, ok := object[name.(string)]; !ok {
				return fmt.Errorf("%s: %s is missing", path, name)
			}
		}
	case "properties":
		for name, value := range object {
			if schema, ok := properties[name]; ok {
				if err := s.check(schema, path+"/"+name, value); err != nil {
					return err
				}
			}
		}
	case "additionalProperties":
		for name, value := range object {
			if _, ok := properties[name]; ok || want == true {
				continue
			}
			if want == false {
				return fmt.Errorf("%s: %s is not in the schema", path, name)
			}
			if err := s.check(want, path+"/"+name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s schemas) array(keyword string, want any, path string, array []any) error {
	length := big.NewRat(int64(len(array)), 1)
	good := true
	switch keyword {
	case "items":
		for i, value := range array {
			if err := s.check(want, fmt.Sprint(path, "/", i), value); err != nil {
				return err
			}
		}
	case "minItems":
		good = length.Cmp(rational(want.(json.Number))) >= 0
	case "maxItems":
		good = length.Cmp(rational(want.(json.Number))) <= 0
	case "uniqueItems":
		for i, value := range array {
			good = good && !slices.ContainsFunc(array[:i], func(one any) bool { return reflect.DeepEqual(one, value) })
		}
	}
	if !good {
		return fmt.Errorf("%s: %d items violate %s %v of the schema", path, len(array), keyword, want)
	}
	return nil
}

// hasType reports whether a value is of a type, or of one of several types.
func hasType(want, value any) bool {
	if several, ok := want.([]any); ok {
		return slices.ContainsFunc(several, func(one any) bool { return hasType(one, value) })
	}
	switch value := value.(type) {
	case nil:
		return want == "null"
	case bool:
		return want == "boolean"
	case string:
		return want == "string"
	case json.Number:
		return want == "number" || want == "integer" && rational(value).IsInt()
	case []any:
		return want == "array"
	}
	return want == "object"
}

func rational(number json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(number.String())
	if !ok {
		panic("not a number: " + number.String())
	}
	return r
}

// TestSchemas: the validator of these tests finds errors.
func TestSchemas(t *testing.T) {
	document, err := decode(`{"a": {"type": "object", "required": ["n"], "additionalProperties": false, "properties": {
		"n": {"type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991}, "e": {"enum": ["x", 2]}, "c": {"const": true},
		"l": {"type": "array", "minItems": 1, "maxItems": 2, "uniqueItems": true, "items": {"$ref": "#/s"}},
		"o": {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]}, "m": {"additionalProperties": {"$ref": "#/s"}}}},
		"s": {"type": "string", "minLength": 2, "pattern": "^[a-zé]*$"}, "new": {"colour": 1}}`)
	must(t, err)
	s := schemas{document}
	for text, good := range map[string]bool{
		`{"n":1}`: true, `{"n":null}`: true, `{"n":9007199254740991}`: true, `{"n":1.0}`: true,
		`{"n":1,"e":"x","c":true,"l":["ab","cd"],"o":7.5,"m":{"k":"éé"}}`: true, `{"n":1,"e":2,"o":3}`: true,
		`{}`: false, `[]`: false, `{"n":0}`: false, `{"n":1.5}`: false, `{"n":"1"}`: false, `{"n":9007199254740992}`: false, `{"n":1,"x":1}`: false,
		`{"n":1,"e":"y"}`: false, `{"n":1,"c":false}`: false, `{"n":1,"l":[]}`: false, `{"n":1,"l":["ab","ab"]}`: false,
		`{"n":1,"l":["ab","cd","ef"]}`: false, `{"n":1,"l":["é"]}`: false, `{"n":1,"l":["AB"]}`: false, `{"n":1,"o":7}`: false, `{"n":1,"o":4.5}`: false,
		`{"n":1,"m":{"k":1}}`: false, `{"n":true}`: false,
	} {
		value, err := decode(text)
		must(t, err)
		schema, err := s.at("/a")
		must(t, err)
		if err := s.check(schema, "", value); (err == nil) != good {
			t.Errorf("%s: got error %v, want one: %v", text, err, !good)
		}
	}
	unknown, err := s.at("/new")
	must(t, err)
	if s.check(unknown, "", nil) == nil {
		t.Error("an unknown keyword was ignored, want an error")
	}
}
