"""Everyday words and phrases of the languages that natural voices speak: what a training hears beside its own words.

Written for this project. None holds a keyword of a shipped pack, and short words that sound like one ("no" in Spanish)
are left out. `auricle.speech.other_speech.FOREIGN` has other texts, which espeak-ng says.
"""

from __future__ import annotations

from collections.abc import Mapping

from auricle.speech.other_speech import FOREIGN

_TEXTS = {
    "en": """
        breakfast, the newspaper, a bicycle, my neighbour, umbrella, chocolate cake, the kitchen sink, blanket,
        library, Wednesday afternoon, orange juice, a pair of scissors, strawberries, the garden fence, thunderstorm,
        ceiling, grandmother, the train was late, pass me the butter, I forgot my keys, what a lovely view,
        she plays the violin, we should leave soon, he bought a hammer, did you sleep well, the soup is cold,
        it smells of coffee, raincoat, they moved last summer, have some bread, a glass of milk, cupboard, telephone,
        museum, mountain, carpet, puzzle, yesterday evening, the children laughed, can you help me, I like swimming,
        feather, pillow, candle, bucket, whose jacket is this, the bus stops here soon, that sounds familiar
    """,
    "es": """
        el desayuno, la ventana, el periódico, mi vecino, la bicicleta, un paraguas, la cuchara, el jardín, la lluvia,
        tengo hambre, el tren llega tarde, qué hora es, hace mucho frío, me gusta el chocolate, las llaves,
        la escalera, el miércoles por la tarde, zumo de naranja, una taza de café, la biblioteca, cierra la puerta,
        abre la ventana, enciende la luz, apaga la radio, sube el volumen, baja la música, pon una alarma,
        los niños juegan, el abuelo, la semana pasada, cuánto cuesta, estoy cansado, nos vemos luego, hasta mañana,
        feliz cumpleaños, la montaña, el perro ladra, un vaso de leche, queso fresco, la mantequilla, pescado,
        mariposa, zapatos nuevos, ayer llovió, buenas noches, adelante, me llamo Lucía, izquierda, derecha,
        siguiente canción
    """,
    "fr": """
        le petit déjeuner, la fenêtre, le journal, mon voisin, la bicyclette, un parapluie, la cuillère, le jardin,
        j'ai faim, le train est en retard, quelle heure est-il, il fait froid, j'aime le chocolat, les clés,
        l'escalier, mercredi après-midi, jus d'orange, une tasse de café, la bibliothèque, ferme la porte,
        ouvre la fenêtre, allume la lumière, éteins la radio, monte le son, baisse la musique, mets un réveil,
        les enfants jouent, la semaine dernière, combien ça coûte, je suis fatigué, à tout à l'heure, à demain,
        joyeux anniversaire, le chien aboie, un verre de lait, du fromage frais, le beurre, poisson, papillon,
        chaussures neuves, grand-père, bonne nuit, je m'appelle Lucie, à gauche, à droite, chanson suivante, montagne,
        aujourd'hui, toujours
    """,
    "hi": """
        नाश्ता, खिड़की, अख़बार, मेरा पड़ोसी, साइकिल, छाता, चम्मच, बगीचा, बारिश, मुझे भूख लगी है, गाड़ी देर से आई,
        कितने बजे हैं, बहुत ठंड है, मुझे चॉकलेट पसंद है, चाबियाँ, सीढ़ी, बुधवार की दोपहर, संतरे का रस, एक कप चाय,
        पुस्तकालय, दरवाज़ा बंद करो, खिड़की खोलो, बत्ती जलाओ, रेडियो बंद करो, आवाज़ बढ़ाओ, संगीत धीमा करो, अलार्म लगाओ,
        बच्चे खेल रहे हैं, दादाजी, पिछले हफ़्ते, यह कितने का है, मैं थक गया हूँ, कल मिलेंगे, जन्मदिन मुबारक,
        कुत्ता भौंकता है, दूध का गिलास, पनीर, मक्खन, मछली, तितली, नए जूते, शुभ रात्रि, मेरा नाम लता है, बाएँ, दाएँ,
        अगला गाना, पहाड़, आजकल, हमेशा, धीरे धीरे
    """,
    "it": """
        la colazione, la finestra, il giornale, il mio vicino, la bicicletta, un ombrello, il cucchiaio, il giardino,
        la pioggia, che ore sono, fa molto freddo, mi piace il cioccolato, le chiavi, la scala, ho fame, montagna,
        mercoledì pomeriggio, succo d'arancia, una tazza di caffè, la biblioteca, chiudi la porta, apri la finestra,
        accendi la luce, spegni la radio, alza il volume, abbassa la musica, metti una sveglia, i bambini giocano,
        la settimana scorsa, quanto costa, mi sento stanco, ci vediamo dopo, a domani, buon compleanno, il nonno,
        il cane abbaia, un bicchiere di latte, formaggio fresco, il burro, pesce, farfalla, scarpe nuove,
        ieri pioveva, buonanotte, avanti, mi chiamo Lucia, sinistra, destra, prossima canzone, il treno arriva tardi
    """,
    "ja": """
        あさごはん, まどをあけて, しんぶん, となりのひと, じてんしゃ, かさをわすれた, スプーン, にわのはな,
        あめがふる, おなかがすいた, でんしゃがおくれた, いまなんじですか, とてもさむい, チョコレート, かぎがない,
        かいだん, すいようびのごご, オレンジジュース, コーヒーをいっぱい, としょかん, ドアをしめて, でんきをつけて,
        ラジオをけして, おとをおおきく, おんがくをちいさく, めざましをかけて, こどもがあそぶ, おじいさん, せんしゅう,
        いくらですか, つかれました, またあした, おたんじょうびおめでとう, いぬがほえる, ぎゅうにゅう,
        チーズをください, バター, さかなりょうり, ちょうちょ, あたらしいくつ, おやすみなさい, わたしはゆきです,
        ひだりがわ, みぎがわ, つぎのきょく, やまにのぼる, きょうはいそがしい, いつも, ゆっくり, ただいま
    """,
    "pt": """
        o café da manhã, a janela, o jornal, meu vizinho, a bicicleta, um guarda-chuva, a colher, o jardim, a chuva,
        estou com fome, o trem atrasou, que horas são, faz muito frio, gosto de chocolate, as chaves, a escada,
        quarta-feira à tarde, suco de laranja, uma xícara de chá, a biblioteca, feche a porta, abra a janela,
        acenda a luz, desligue o rádio, aumente o volume, abaixe a música, ponha um alarme, as crianças brincam,
        a semana passada, quanto custa, estou cansado, até amanhã, feliz aniversário, o avô, montanha, devagar,
        o cachorro late, um copo de leite, queijo fresco, manteiga, peixe, borboleta, sapatos novos, ontem choveu,
        boa noite, meu nome é Lúcia, à esquerda, à direita, próxima música, sempre
    """,
    "cmn": """
        早饭吃什么, 打开窗户, 报纸, 我的邻居, 自行车, 一把雨伞, 勺子, 花园里, 下雨了, 我饿了, 火车晚点了, 现在几点,
        今天很冷, 我喜欢巧克力, 钥匙在哪儿, 楼梯, 星期三下午, 橙汁, 一杯咖啡, 图书馆, 请关门, 把灯打开, 把收音机关掉,
        声音大一点, 音乐小一点, 定个闹钟, 孩子们在玩, 爷爷, 上个星期, 多少钱, 我累了, 明天见, 生日快乐, 小狗在叫,
        牛奶和面包, 奶酪, 黄油, 鱼汤, 蝴蝶, 新鞋子, 晚安, 我叫小红, 往左走, 往右走, 下一首歌, 爬山, 经常, 慢慢来,
        欢迎光临, 没关系
    """,
}
OTHER_WORDS: Mapping[str, tuple[str, ...]] = {
    code: tuple(text for part in texts.split(",") if (text := " ".join(part.split()))) for code, texts in _TEXTS.items()
}
"""By espeak-ng's language: fifty texts or so, in the language's own script."""
_MORE = {
    "pt": "bom dia, até logo, muito obrigado, por favor, como vai você, eu entendo, talvez, amanhã de manhã, "
    "onde fica a estação, o tempo está bom, claro, por quê, um pouco, desculpe, vamos embora",
    "ja": "おはよう, さようなら, ありがとう, おねがいします, おげんきですか, わかりました, たぶん, あしたのあさ, "
    "えきはどこですか, いいてんきですね, もちろん, どうして, すこし, すみません, いきましょう",
}
ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    **{speech.voice: speech.texts for speech in FOREIGN.values()},
    **{code: tuple(texts.split(", ")) for code, texts in _MORE.items()},
}
"""By espeak-ng's language: the few phrases that an own wake word has said by natural voices."""
