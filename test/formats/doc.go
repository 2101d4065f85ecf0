// Package formats holds stores to what was released: they must read what a release has written into them, and write the same today. The
// files in testdata are what the released version has written for each of the histories in this package. They are never changed: a
// store that keeps something in another way gets another history, and still reads the old one.
package formats
