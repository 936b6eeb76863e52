// Members of groups, clients of franz-go, in the lines that all member programs speak: see tests/tests/kafka/lines.rs.
//
// With arguments, NAME TOPICS KEY=VALUE..., it is one member, and ends when that does. Without, it is the host of many:
// "new NAME TOPICS KEY=VALUE..." makes one, "NAME COMMAND" tells it something, and each line of its begins with its name. Either ends
// at once when its input does.
package main

import (
	"bufio"
	"os"
	"strings"
)

func main() {
	if len(os.Args) > 1 {
		m := newMember(os.Args[1:], output{})
		go func() {
			if m.run() {
				os.Exit(0)
			}
			os.Exit(2)
		}()
		eachLine(func(line string) { m.commands <- line })
	} else {
		members := make(map[string]*member)
		eachLine(func(line string) {
			name, rest, _ := strings.Cut(line, " ")
			if name == "new" {
				arguments := strings.Split(rest, " ")
				m := newMember(arguments, output{prefix: arguments[0] + " "})
				members[arguments[0]] = m
				go m.run()
			} else {
				members[name].commands <- rest
			}
		})
	}
	// Whoever wanted the members is gone.
	os.Exit(1)
}

func eachLine(do func(line string)) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		do(lines.Text())
	}
}
