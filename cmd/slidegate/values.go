package main

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/alecthomas/kong"
)

// readValues makes the parser read values of flags whose errors would otherwise not say what is valid.
func readValues() kong.Option {
	return kong.OptionFunc(func(parser *kong.Kong) error {
		levels := valueReader("debug, info, warn or error", func(text string) (level slog.Level, err error) {
			err = level.UnmarshalText([]byte(text))
			return level, err
		})
		durations := valueReader("a duration, such as 500ms, 10s or 1m30s", time.ParseDuration)
		return errors.Join(kong.TypeMapper(reflect.TypeFor[slog.Level](), levels).Apply(parser),
			kong.TypeMapper(reflect.TypeFor[time.Duration](), durations).Apply(parser))
	})
}

// valueReader returns a reader of values that parse accepts.
func valueReader[T any](valid string, parse func(string) (T, error)) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto(valid, &text); err != nil {
			return err
		}
		value, err := parse(text)
		if err != nil {
			return fmt.Errorf("must be %s, not %q", valid, text)
		}
		target.Set(reflect.ValueOf(value))
		return nil
	}
}
