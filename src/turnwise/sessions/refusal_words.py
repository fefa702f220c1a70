"""The words of refusals in English, as expressions over text in lower case with straight apostrophes.

Each begins with a literal, so that a search runs past a text without it at the speed of memory. What must not
follow, RE2 can't say: a group tells it apart.
"""

from __future__ import annotations

from turnwise.linear_regex import LinearRegex

_TASKS = (
    "accommodat act_as address advis agree aid answer approve assist be_involved be_part be_the_one "
    "bypass carry_out carrying_out comment complet comply condon continu contribut creat describ design "
    "disclos discuss do_a do_any do_it do_so do_that do_this do_what doing draft enabl encourag endors "
    "engag entertain explain_how explain_ways fabricat facilitat find_out forge_a forge_the forge_your "
    "forging fulfil generat get_into getting_into giv go_into go_there grant guid handl help honor honour "
    "impersonat instruct join keep_going list mak mimic offer outlin output participat play post pretend "
    "proceed produc promot provid read_her read_his recommend repeat respond reveal role-play role_play "
    "roleplay say_it say_such say_that send shar show_how show_you speak_to speculat suggest suppl "
    "support take_part talk_about talk_through teach tell_you touch track translat walk work_on writ"
)
"""What one may refuse to do, by the beginning of the word."""

TASK = f"(?:{'|'.join(word.replace('_', ' ') for word in sorted(_TASKS.split()))})"

_BETWEEN = (
    "(?:(?:really|simply|just|unfortunately|therefore|also|still|however|though|ethically|personally|absolutely|definitely"
    "|currently|knowingly|responsibly|legally|directly|actively|even|ever|possibly|honestly|never"
    "|in good conscience|in good faith|be able to|be|afraid|i),? ){0,4}"
)
"""Words that may stand between subject, negation and task."""

_REFUSES = (
    r"(?:can ?'?t|cannot|can not|won'?t|will not|will never|shouldn'?t|should not|mustn'?t|must not"
    r"|(?:am|'?m)(?: really| just| simply)? (?:unable|not able|not going|not willing|unwilling|not allowed"
    r"|not permitted|not in a position|not prepared|not here|not programmed|not designed|not meant) to"
    r"|(?:am|'?m|was|have been|'ve been) (?:designed|programmed|trained|instructed|built|told) not to)"
)

_GENERAL = r"(?:do not|don'?t) (?:assist|creat|discuss|engag|generat|help|participat|provid|shar|support|writ)"
"""What one never does: "I don't provide such instructions"."""

SELF = LinearRegex(
    " i"
    rf"(?:(?:(?:, ?| ){_BETWEEN})?{_REFUSES},? {_BETWEEN}(?P<task>{TASK})"
    rf"| {_BETWEEN}{_GENERAL}"
    r"| (?:[a-z]+ )?(?:can'?t|cannot|won'?t|will not)(?:[.!;]| *$| do is\b| with (?:that|this)\b)"
    r"|(?:'?m| am) not (?:[a-z]+ ){0,2}comfortable"
    r"|(?:'?m| am| feel|'d be| would be) (?:[a-z]+ )?uncomfortable (?:with|[a-z]+ing)"
    r"| (?:do not|don'?t|would not|wouldn't) (?:[a-z]+ )?(?:feel|be) (?:[a-z]+ )?comfortable"
    r"|(?:'ll| will| must| have to| need to| am going to|'?m going to)?"
    r"(?: (?:must|respectfully|politely|firmly|have to|need to))*"
    r" (?:decline|refuse)\b"
    r"|(?P<wish>(?:'d| would) (?:really |much )?(?:rather|prefer) not)\b"
    r"|(?:'?m| am) going to (?:say no|pass on (?:this|that)|stop (?:here|you))"
    r"| (?:have to|need to|must|'ll have to) (?:say no|pass on (?:this|that)|stop (?:here|you))"
    r"| (?:do not|don'?t) (?:think|believe|feel) (?:that )?"
    r"(?:i (?:should|can|could|ought to)"
    rf"|(?:it|that|this)(?:'s| is| would be) [a-z ]{{0,20}}for me to) {_BETWEEN}{TASK}"
    r")"
)
"""Somebody who says that he will not. A wish that `OF_STATE` follows is none: "I'd rather not be late"."""

OF_STATE = LinearRegex(r" (?:have|be)\b")

CLIPPED = ("can't ", "cant ", "cannot ", "unable to ", "won't ", "not able to ", "not going to ", "not doing ")
"""How a refusal without a subject begins."""

CLIPPED_TASK = LinearRegex(
    r"(?:help|assist|provide|comply|share|discuss|answer|do (?:that|this|it)|create|write|go there|that|this)\b"
)

OPENING = LinearRegex(r"(?:^|[.!?,;:—–-]|\b(?:sorry|but|nope|sorry,? but))$")
"""What stands before a refusal without a subject."""

RULES = LinearRegex(
    r" my (?:[a-z]+ ){0,2}(?:guidelines|polic(?:y|ies)|principles|values|rules|instructions|programming|boundaries"
    r"|ethics|terms|standards)"
)
"""Rules of the speaker's own; `AGAINST` before them or `FORBID` after them makes a refusal."""

AGAINST = LinearRegex(r"(?:against|violat\w*|breach\w*|contrary to|outside(?: of)?|conflicts? with)$")

FORBID = LinearRegex(r" (?:do not|don'?t|does not|doesn'?t|prevent|prohibit|forbid|stop|rule)")

NOT_MINE = LinearRegex(
    r" (?:(?P<no>isn't|aren't|is not|are not|'s not)|is|are|that's|it's|'s) (?P<not>not )?"
    r"(?:something|anything|a (?:topic|request|task|subject)) (?:that |which )?"
    r"i(?:(?P<wont> won't)|(?:'?m| am| can| will|'d| would)(?P<never>n?'?t| not|not)?)\b"
)
"""What is, or is not, something for the speaker to do; an odd number of negations makes a refusal."""

WRONG = LinearRegex(
    r"(?:unethical|irresponsible|inappropriate|wrong|appropriate|right|ethical|responsible|harmful|dangerous)"
    r" (?:for|of) me to "
)

DENIED = LinearRegex(
    r" (?:request|question|prompt|task) (?:can'?t|cannot|can not|could not|won't|will not) be "
    r"(?:fulfil|complet|answer|process|gran)"
)

IDIOM = LinearRegex(
    r"help (?:but|noticing|thinking|feeling|wondering|laughing|smiling|myself)"
    r"|[a-z]+ [a-z' ]{0,40}\benough\b"
    r"|(?:mak|giv|provid|shar|offer|tell you|answer|list|recommend|suggest)\w* [a-z' ]{0,20}"
    r"(?:promises|guarantees|exact|precise|definitive|real-?time|live |up-to-date|single best)"
    r"|mak\w* (?:it\b|heads|sense|out\b|up my mind)"
    r"|tell you how (?:happy|glad|much i|excited)"
    r"|(?:agree more|go into (?:every|all|too much)|repeat myself|suggest otherwise"
    r"|read (?:her|his) (?:mind|handwriting))"
)
"""What begins like a refused task and is none."""

ASKS = LinearRegex(
    r"\b(?:without (?:more|knowing|seeing|having|further|additional|(?:the|a|an|your|some|any) (?:[a-z]+ )?"
    r"(?:logs?|files?|code|text|context|details?|information|picture|image|data|message|question|document|examples?))\b"
    r"|(?:until|unless) (?:you|i)\b)"
)
"""What asks, in the same sentence, for something that is missing."""

NOT_CLAIMED = LinearRegex(
    r"(?:\b(?:if|whether|in case|unless|until|when)|(?:said|says|told [a-z]+|replied|wrote|claims?)(?: that)?),?$"
)
"""What stands before a clause that somebody else says, or that is only supposed."""
