"""Words for the demographic identities of CivilComments."""

IDENTITY_TERMS: dict[str, tuple[str, ...]] = {
    "male": (
        *("man", "men", "male", "males", "boy", "boys", "guy", "guys"),
        *("father", "fathers", "husband", "husbands", "son", "sons"),
    ),
    "female": (
        *("woman", "women", "female", "females", "girl", "girls", "lady", "ladies"),
        *("mother", "mothers", "wife", "wives", "daughter", "daughters"),
    ),
    "LGBTQ": (
        *("gay", "gays", "lesbian", "lesbians", "bisexual", "bisexuals", "homosexual", "homosexuals", "homosexuality"),
        *("transgender", "trans", "queer", "queers", "lgbt", "lgbtq"),
    ),
    "christian": (
        *("christian", "christians", "christianity", "catholic", "catholics", "catholicism"),
        *("protestant", "protestants", "evangelical", "evangelicals"),
    ),
    "muslim": ("muslim", "muslims", "moslem", "moslems", "islam", "islamic", "islamist", "islamists"),
    "other_religions": (
        *("jew", "jews", "jewish", "judaism", "hindu", "hindus", "hinduism", "buddhist", "buddhists", "buddhism"),
        *("atheist", "atheists", "atheism", "sikh", "sikhs"),
    ),
    "black": (
        *("black", "blacks", "african american", "african americans", "african-american", "african-americans"),
        *("negro", "negroes"),
    ),
    "white": ("white", "whites", "caucasian", "caucasians"),
}
"""Words that name each of the eight identities of WILDS-CivilComments, by WILDS's name of the identity."""

IDENTITIES = tuple(IDENTITY_TERMS)
ALL_TERMS = tuple(term for terms in IDENTITY_TERMS.values() for term in terms)
