// Package look is the style sheet that the pages of the program have in common: the report of replay, and the operators' page.
package look

import _ "embed"

// CSS is the style sheet, which a page's own follows.
//
//go:embed look.css
var CSS string
